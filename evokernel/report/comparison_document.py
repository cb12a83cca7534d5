"""JSON of `compare --json`; as in `documents`, documented fields keep their name and meaning."""

from typing import Any

from evokernel.records.evaluation_document import speedup_document
from evokernel.report.compare import ComparedRun, Comparison, Difference, SeedGroup, SpeedupMilestone
from evokernel.report.documents import FORMAT, best_document
from evokernel.report.points import Point


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
        "language": side.identity.language,
        "seed": side.seed,
        "device": side.identity.device,
        "environment": side.identity.environment,
        "evokernel_version": side.identity.evokernel_version,
        "judged": side.judged,
        "correct": side.correct,
        "seconds": side.spent.seconds,
        "device_s": side.device_s,
        "cost_usd": side.spent.cost_usd,
        "calls": side.spent.calls,
        "tokens": side.spent.tokens,
        "best": best_document(side.best, side.run) if side.best else None,
    }


def _level(level: SpeedupMilestone, sides: tuple[ComparedRun, ...]) -> dict[str, Any]:
    rows = zip(sides, level.speedups, level.reached, strict=True)
    return {
        "name": level.name or None,
        "runs": {side.name: {"speedup": speedup, "reached": _leader(leader)} for side, speedup, leader in rows},
    }


def _leader(leader: Point | None) -> dict[str, float] | None:
    if leader is None:
        return None
    return {"evaluations": leader.evaluations, "hours": leader.hours, "dollars": leader.dollars}


def _group(group: SeedGroup) -> dict[str, Any]:
    spreads = {
        name: {"median": spread.median, "low": spread.low, "high": spread.high, "count": spread.count}
        for name, spread in group.spreads.items()
    }
    return {"runs": list(group.names), "seeds": list(group.seeds), "spreads": spreads}


def _difference(found: Difference) -> dict[str, Any]:
    return {
        "one": found.one,
        "other": found.other,
        "kind": found.kind.value,
        "over": found.over or None,
        "ratio": speedup_document(found.ratio) if found.ratio else None,
        "told_apart": found.told_apart,
        "reason": found.reason or None,
    }
