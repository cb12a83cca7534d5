"""Last looks at runs: when `evokernel status` last showed each one. They lie outside the stores, which others read."""

import contextlib
import json
import os
import re
import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path

import click

_SPAN = re.compile(r"(\d{1,6})([mhd])")
_SECONDS = {"m": 60, "h": 3600, "d": 86400}
_CLOCK = re.compile(r"(\d{1,2}):(\d\d)")
KEPT = 500
"""Runs whose last look is kept."""
EXPECTED = "a span (8h, 30m, 2d), a time of the clock (22:00) or a date (2026-11-24, 2026-11-24T22:00)"


class Moment(click.ParamType[float]):
    """A moment in the past; becomes s since 1970."""

    name = "moment"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the moment. Ends the command where there is none."""
        if isinstance(value, float):
            return value
        try:
            return _moment(str(value).strip(), datetime.now().astimezone()).timestamp()
        except (ValueError, OverflowError, OSError):
            self.fail(f"{value!r}: expected {EXPECTED}", param, ctx)


def _moment(text: str, now: datetime) -> datetime:
    if span := _SPAN.fullmatch(text):
        return now - timedelta(seconds=int(span[1]) * _SECONDS[span[2]])
    if clock := _CLOCK.fullmatch(text):
        today = now.replace(hour=int(clock[1]), minute=int(clock[2]), second=0, microsecond=0)
        return today if today <= now else today - timedelta(days=1)
    return datetime.fromisoformat(text).astimezone()


def looks_file() -> Path:
    """Return the file of last looks. Without a home it is one that cannot be written."""
    home = os.environ.get("HOME") or os.devnull
    base = os.environ.get("XDG_STATE_HOME") or str(Path(home) / ".local" / "state")
    return Path(base) / "evokernel" / "looks.json"


def last_look(run_id: str, file: Path) -> float | None:
    """Return when a run was last looked at, in s since 1970; None where nobody knows."""
    at = _looks(file).get(run_id)
    return at if at is not None and at <= time.time() else None


def remember_look(run_id: str, file: Path) -> None:
    """Write down that a run is looked at now; where that cannot be written it is let go."""
    looks = {name: at for name, at in _looks(file).items() if name != run_id} | {run_id: time.time()}
    newest = dict(sorted(looks.items(), key=lambda item: item[1])[-KEPT:])
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False, encoding="utf-8") as staged:
            json.dump(newest, staged)
        os.replace(staged.name, file)


def _looks(file: Path) -> dict[str, float]:
    try:
        read = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    found = read.items() if isinstance(read, dict) else ()
    return {str(name): float(at) for name, at in found if isinstance(at, int | float)}
