"""JSON of `compare --json`; as in `documents`, documented fields keep their name and meaning."""

from dataclasses import asdict
from typing import Any

from archive.views.progress_axis import BYS
from evokernel.records.evaluation_document import fields_document, speedup_document
from evokernel.report.compare import ComparedRun, Comparison, Difference, SeedGroup, SpeedupMilestone
from evokernel.report.documents import FORMAT, best_document


def comparison_document(found: Comparison) -> dict[str, Any]:
    """Return the document of `compare --json`."""
    return {
        "format": FORMAT,
        "task": found.task,
        "comparable": found.comparable,
        "notes": list(found.notes),
        "runs": {side.name: _side(side) for side in found.sides},
        "levels": [_level(level, found.sides) for level in found.levels],
        "differing": {
            key: {side.name: value for side, value in zip(found.sides, row, strict=True)}
            for key, row in found.differing.items()
        },
        "groups": [_group(group) for group in found.groups],
        "differences": [_difference(each) for each in found.differences],
    }


def _side(side: ComparedRun) -> dict[str, Any]:
    return {
        "store": str(side.run.path),
        "run_id": side.run.run_id,
        "forked_from": side.run.forked_from or None,
        **fields_document(side.identity, "language", "seed", "device", "environment", "evokernel_version"),
        **fields_document(side, "judged", "correct"),
        "seconds": side.spent.seconds,
        "device_s": side.device_s,
        **fields_document(side.spent, "cost_usd", "calls", "tokens"),
        "best": best_document(side.best, side.run) if side.best else None,
    }


def _level(level: SpeedupMilestone, sides: tuple[ComparedRun, ...]) -> dict[str, Any]:
    rows = zip(sides, level.speedups, level.reached, strict=True)
    return {
        "name": level.name or None,
        "runs": {
            side.name: {"speedup": speedup, "reached": leader and fields_document(leader, *BYS)}
            for side, speedup, leader in rows
        },
    }


def _group(group: SeedGroup) -> dict[str, Any]:
    spreads = {name: asdict(spread) for name, spread in group.spreads.items()}
    return {"runs": list(group.names), "seeds": list(group.seeds), "spreads": spreads}


def _difference(found: Difference) -> dict[str, Any]:
    return {
        **fields_document(found, "one", "other"),
        "kind": found.kind.value,
        "over": found.over or None,
        "ratio": speedup_document(found.ratio) if found.ratio else None,
        "told_apart": found.told_apart,
        "reason": found.reason or None,
    }
