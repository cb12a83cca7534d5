"""A run as tables: one row for each judged candidate, and one for each change of the leader."""

import importlib
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from archive.follower import LeadingEvaluation
from archive.store import Store
from archive.views.effort import StepEffort, device_s, step_efforts
from archive.views.progress_axis import BYS, ProgressAxis
from evokernel.errors import StoreError, install
from evokernel.records.evaluation import Evaluation
from evokernel.records.evaluation_document import fields_document
from evokernel.records.timing import combined_speedup, floor_share
from evokernel.report.rows import CandidateRow, read_judged
from evokernel.report.verdicts import MeasurementKind, ProgramVerdicts

if TYPE_CHECKING:
    import pandas as pd

DESCRIPTOR = "descriptor_"
COLUMNS = (
    "id", "step", "seq", "at", "evaluations", "hours", "dollars", "language", "operator", "island", "status", "stage",
    "mode", "budget", "speedup", "low", "high", "fitness", "floor_share", "holdout", "final_speedup", "final_low",
    "final_high", "gain", "predicted_speedup", "model", "calls", "tokens", "cost_usd", "device_s", "parents",
    "inspirations", "rationale", "feedback", "program_hash", "skeleton", "origin",
)  # fmt: skip
"""The columns of `candidates_frame`, before those of the descriptor; docs/python.md defines each."""


def needed(name: str) -> Any:
    """Import and return a library of the extra `notebook`. Raises `StoreError` if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise StoreError(
            f"this view of a run needs {name.partition('.')[0]}, which cannot be imported ({error}): "
            f"{install('notebook')}"
        ) from None


def candidates_frame(store: Store) -> "pd.DataFrame":
    """Return one row for each judged candidate, in the order of seq: `COLUMNS`, then `descriptor_*`.

    Raises `StoreError` if pandas is not installed.
    """
    with store.database.snapshot():
        judged, progress, efforts = read_judged(store), ProgressAxis(store), step_efforts(store)
        before = {each.candidate_id: each.verdicts for each in judged}
        rows = [_row(each, progress, efforts, before) for each in judged]
    axes = sorted({name for row in rows for name in row if name.startswith(DESCRIPTOR)})
    frame = needed("pandas").DataFrame(rows, columns=[*COLUMNS, *axes])
    frame["at"] = needed("pandas").to_datetime(frame["at"], utc=True)
    return frame  # type: ignore[no-any-return]


def curve_frame(store: Store) -> "pd.DataFrame":
    """Return one row for each change of the leader, or of its measured speed-up, in the order of seq.

    It can go down, where a longer measurement of the leader corrects a short one. Raises `StoreError` if pandas is not
    installed.
    """
    with store.database.snapshot():
        progress, points, leading = ProgressAxis(store), store.curve(), LeadingEvaluation(store)
        highs = [combined_speedup(found.timings).high if (found := leading.of(each)) else math.nan for each in points]
    rows = [
        {
            "seq": point.seq,
            **{by: progress.at(point.seq, by) for by in BYS},
            "id": point.candidate,
            **fields_document(point, "operator", "island", "speedup", "low"),
            "high": high,
            "fitness": point.fitness.value,
        }
        for point, high in zip(points, highs, strict=True)
    ]
    columns = ["seq", *BYS, "id", "operator", "island", "speedup", "low", "high", "fitness"]
    return needed("pandas").DataFrame(rows, columns=columns)  # type: ignore[no-any-return]


def _row(
    judged: CandidateRow,
    progress: ProgressAxis,
    efforts: Mapping[int, StepEffort],
    before: Mapping[str, ProgramVerdicts],
) -> dict[str, Any]:
    result, verdicts = judged.result, judged.verdicts
    proposal, usage = result.proposal, result.proposal.usage
    shown = judged.shown
    own = StepEffort(usage.model, 0, usage.prompt_tokens + usage.completion_tokens, usage.cost_usd)
    effort = efforts.get(proposal.step, own)
    return {
        "id": judged.candidate_id,
        "step": proposal.step,
        "seq": result.seq,
        "at": datetime.fromtimestamp(result.at, UTC),
        **{by: progress.at(result.seq, by) for by in BYS},
        "language": proposal.candidate.language,
        **fields_document(proposal, "operator", "island"),
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
        **fields_document(effort, "model", "calls", "tokens", "cost_usd"),
        "device_s": sum(device_s(each.evaluation.metrics, each.evaluation.duration_s) for each in judged.evaluations),
        **fields_document(proposal, "parents", "inspirations", "rationale"),
        "feedback": (verdicts.failure or shown).feedback,
        **fields_document(result, "program_hash", "skeleton", "origin"),
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


def _gain(verdicts: ProgramVerdicts, parent: ProgramVerdicts | None) -> float:
    if verdicts.fitness is None or parent is None or parent.fitness is None:
        return math.nan
    return math.exp(verdicts.fitness.log_speedup - parent.fitness.log_speedup)
