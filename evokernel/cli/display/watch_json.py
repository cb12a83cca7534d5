"""Output of `evokernel watch --json`: one JSON object in a line for each change."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Self

import click

from evokernel.cli.display.following import StoreLook
from evokernel.cli.display.snapshot import Snapshot
from evokernel.records.evaluation_document import fields_document
from evokernel.records.leader import LeaderChange
from evokernel.report.documents import FORMAT

_UNREPORTED = ("seconds", "remaining", "cost_usd", "calls", "tokens", "hosts")
"""Fields that change between results; they cause no line of their own."""


class ChangeLines:
    """A printer of changes: a line for each look that differs in more than time. A context manager."""

    def __init__(self, file: IO[str], path: Path) -> None:
        self._file = file
        self._path = path
        self._printed: dict[str, Any] = {}
        self.gone = False
        self.last: StoreLook | None = None

    def show(self, look: StoreLook) -> None:
        """Print a line if anything has changed."""
        document = watch_document(look, self._path)
        changed = {name: value for name, value in document.items() if name not in _UNREPORTED}
        if changed != self._printed:
            self._printed = {**changed, "improvements": [], "notes": []}
            try:
                click.echo(json.dumps(document), file=self._file)
            except OSError:
                self.gone = True
        self.last = look

    def __enter__(self) -> Self:
        """Begin to show."""
        return self

    def __exit__(self, *details: object) -> None:
        """Do nothing: lines stay."""


def watch_document(look: StoreLook, path: Path) -> dict[str, Any]:
    """Return one line of `watch --json`."""
    snapshot, progress = look.snapshot, look.snapshot.progress
    return {
        "format": FORMAT,
        "store": str(path),
        "task": snapshot.task or None,
        "state": look.state,
        "halted": snapshot.halted or None,
        **fields_document(snapshot, "results", "correct", "in_flight"),
        "left": snapshot.in_flight if snapshot.halted else 0,
        "remaining": snapshot.remaining,
        **fields_document(progress, "seconds", "cost_usd"),
        "priced": snapshot.priced,
        **fields_document(progress, "calls", "tokens"),
        "best": best_document(snapshot),
        "islands": {
            island.name: {"niches": island.niches, "best_speedup": island.best, "stale": island.stale}
            for island in snapshot.islands
        },
        "hosts": [asdict(host) for host in snapshot.hosts],
        "improvements": [_improvement(seen.change) for seen in look.seen if seen.change is not None],
        "notes": [fields_document(note, "text", "warning") for note in look.notes],
    }


def best_document(snapshot: Snapshot) -> dict[str, Any] | None:
    """Return the best kernel of a snapshot; None without one."""
    if not snapshot.best:
        return None
    return {
        "candidate": snapshot.best,
        "mode": snapshot.mode,
        "speedup": snapshot.progress.best_speedup,
        "low": snapshot.low,
        "speedup_over_seed": snapshot.over_seed,
        "baselines": dict(snapshot.baselines),
        "floor_share": snapshot.progress.roofline_share,
        "since": snapshot.progress.since_improvement,
    }


def _improvement(change: LeaderChange) -> dict[str, Any]:
    return {
        **fields_document(change, "seq", "at", "candidate", "operator", "island"),
        "mode": change.mode.value,
        **fields_document(change, "speedup", "low", "rationale"),
    }
