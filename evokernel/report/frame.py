"""A run as tables: one row for each judged candidate, and one for each change of the leader."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from archive.calls import COST_USD, TOKENS
from archive.store import Store
from evokernel.records.evaluation import Evaluation, combined_speedup, floor_share
from evokernel.report.effort import STEP_MODELS, device_s
from evokernel.report.optional import needed
from evokernel.report.progress_axis import BYS, ProgressAxis
from evokernel.report.rows import CandidateRow, read_judged
from evokernel.report.verdicts import MeasurementKind, Verdicts

if TYPE_CHECKING:
    import pandas as pd

DESCRIPTOR = "descriptor_"
COLUMNS = (
    "id", "step", "seq", "at", "evaluations", "hours", "dollars", "language", "operator", "island", "status", "stage",
    "mode", "budget", "speedup", "low", "high", "fitness", "floor_share", "holdout", "final_speedup", "final_low",
    "final_high", "gain", "predicted_speedup", "model", "calls", "tokens", "cost_usd", "device_s", "parents",
    "inspirations", "rationale", "feedback", "program_hash", "skeleton", "origin",
)  # fmt: skip
"""The columns of `candidates_frame`, before those of the descriptor; docs/python.md says what each holds."""


def candidates_frame(store: Store) -> "pd.DataFrame":
    """Return one row for each judged candidate, in the order of seq: `COLUMNS`, then `descriptor_*`.

    Raises:
        StoreError: pandas is not installed.
    """
    with store.database.snapshot():
        judged, progress, efforts = read_judged(store), ProgressAxis(store), _efforts(store)
        before = {each.candidate_id: each.verdicts for each in judged}
        rows = [_row(each, progress, efforts, before) for each in judged]
    axes = sorted({name for row in rows for name in row if name.startswith(DESCRIPTOR)})
    frame = needed("pandas").DataFrame(rows, columns=[*COLUMNS, *axes])
    frame["at"] = needed("pandas").to_datetime(frame["at"], utc=True)
    return frame  # type: ignore[no-any-return]


def curve_frame(store: Store) -> "pd.DataFrame":
    """Return one row for each change of the leader, or of what is known of it, in the order of seq.

    It can go down: where a longer measurement of the leader took back what a short one had promised.

    Raises:
        StoreError: pandas is not installed.
    """
    with store.database.snapshot():
        progress, points = ProgressAxis(store), store.curve()
        proposals = {point.candidate: store.proposal_of(point.candidate) for point in points}
    rows = [
        {
            "seq": point.seq,
            **{by: progress.at(point.seq, by) for by in BYS},
            "id": point.candidate,
            "operator": proposal.operator if (proposal := proposals[point.candidate]) else "",
            "island": proposal.island if proposal else "",
            "speedup": math.exp(point.fitness.log_speedup),
            "low": math.exp(point.fitness.value),
            "fitness": point.fitness.value,
        }
        for point in points
    ]
    columns = ["seq", *BYS, "id", "operator", "island", "speedup", "low", "fitness"]
    return needed("pandas").DataFrame(rows, columns=columns)  # type: ignore[no-any-return]


def _efforts(store: Store) -> dict[int, tuple[str, int, int, float]]:
    """Return model, calls, tokens and dollars of each step for which models were called."""
    rows = store.database.rows(
        f"SELECT c.step, m.model, count(*), sum({TOKENS}), sum({COST_USD}) FROM calls c "
        f"JOIN ({STEP_MODELS}) m ON m.step = c.step GROUP BY c.step"
    )
    return {row[0]: tuple(row)[1:] for row in rows}


def _row(
    judged: CandidateRow,
    progress: ProgressAxis,
    efforts: Mapping[int, tuple[str, int, int, float]],
    before: Mapping[str, Verdicts],
) -> dict[str, Any]:
    result, verdicts = judged.result, judged.verdicts
    proposal, usage = result.proposal, result.proposal.usage
    shown = judged.shown
    own = (usage.model, 0, usage.prompt_tokens + usage.completion_tokens, usage.cost_usd)
    model, calls, tokens, cost_usd = efforts.get(proposal.step, own)
    return {
        "id": judged.candidate_id,
        "step": proposal.step,
        "seq": result.seq,
        "at": datetime.fromtimestamp(result.at, UTC),
        **{by: progress.at(result.seq, by) for by in BYS},
        "language": proposal.candidate.language,
        "operator": proposal.operator,
        "island": proposal.island,
        "status": judged.status.value,
        "stage": (verdicts.failure or shown).stage.value,
        "mode": shown.key.mode.value,
        "budget": shown.key.budget.value,
        **_speedup(verdicts.of_kind(MeasurementKind.SEARCH), ""),
        "fitness": verdicts.fitness.value if verdicts.fitness else math.nan,
        "floor_share": _floor(verdicts.search),
        "holdout": verdicts.holdout.value,
        **_speedup(verdicts.of_kind(MeasurementKind.FINAL), "final_"),
        "gain": _gain(verdicts, before.get(proposal.parents[0]) if proposal.parents else None),
        "predicted_speedup": math.nan if proposal.predicted_speedup is None else proposal.predicted_speedup,
        "model": model,
        "calls": calls,
        "tokens": tokens,
        "cost_usd": cost_usd,
        "device_s": sum(device_s(each.evaluation.metrics, each.evaluation.duration_s) for each in judged.evaluations),
        "parents": proposal.parents,
        "inspirations": proposal.inspirations,
        "rationale": proposal.rationale,
        "feedback": (verdicts.failure or shown).feedback,
        "program_hash": result.program_hash,
        "skeleton": result.skeleton,
        "origin": result.origin,
        **{f"{DESCRIPTOR}{name}": value for name, value in shown.descriptor.items()},
    }


def _speedup(evaluation: Evaluation | None, prefix: str) -> dict[str, float]:
    names = ("speedup", "low", "high")
    if evaluation is None:
        return dict.fromkeys((f"{prefix}{name}" for name in names), math.nan)
    speedup = combined_speedup(evaluation.timings)
    return {f"{prefix}speedup": speedup.value, f"{prefix}low": speedup.low, f"{prefix}high": speedup.high}


def _floor(evaluation: Evaluation | None) -> float:
    share = floor_share(evaluation.timings) if evaluation else None
    return math.nan if share is None else share


def _gain(verdicts: Verdicts, parent: Verdicts | None) -> float:
    if verdicts.fitness is None or parent is None or parent.fitness is None:
        return math.nan
    return math.exp(verdicts.fitness.log_speedup - parent.fitness.log_speedup)
