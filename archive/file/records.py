"""Conversion of rows to records and back. No other module knows the columns of a record."""

import json
import math
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from archive.file.texts import unpack
from evokernel.errors import StoreCorrupt
from evokernel.records.candidate import Candidate, Proposal, Usage, clean
from evokernel.records.evaluation import Evaluation, EvaluationKey, Fidelity, Mode, Stage, Status
from evokernel.records.timing import Limit, Speedup, Timing, Verdict, combined_speedup

T = TypeVar("T")

EVALUATION_COLUMNS = (
    "seq, key_digest, program_hash, task_hash, device, environment, evaluator_version, mode, budget, candidate, "
    "status, stage, timings, panel, descriptor, metrics, feedback, artifact_hash, stopped_early, duration_s, sandbox, "
    "speedup, speedup_low, origin"
)
PROPOSAL_COLUMNS = (
    "step, candidate, operator, island, asked_seq, rationale, predicted_speedup, model, prompt_tokens, "
    "completion_tokens, cost_usd, duration_s, at, origin, insights, exhausted"
)
INSERT_PROPOSAL = f"INSERT INTO proposals({PROPOSAL_COLUMNS}, digest) VALUES ({', '.join('?' * 17)})"
CANDIDATE_COLUMNS = "id, language, text, program_hash, skeleton, born, origin"
INBOX_COLUMNS = "id, kind, payload, author, created, taken_seq"
_MEASURED = ("weight", "candidate_us", "baseline_us", "log_speedup", "log_error", "floor_us")
"""The real numbers of a timing."""

_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)  # `json.dumps` makes one at every call


@dataclass(frozen=True, slots=True)
class StoredEvaluation:
    """An evaluation with the fact that brought it in."""

    seq: int
    """The number of the fact."""
    evaluation: Evaluation
    """The verdict."""
    at: float
    """The time of commit, in s since 1970."""
    origin: str
    """Run and seq in the store that a fork copied it from; empty for an own one."""


@dataclass(frozen=True, slots=True)
class StoredCandidate:
    """A candidate with its hashes and its first step."""

    candidate: Candidate
    """Language and source."""
    program_hash: str
    """The hash of the program: of its text, or of its tokens where an earlier release proposed it."""
    skeleton: str
    """The hash of the source with the values of its tunables masked."""
    born: int
    """The step that first proposed it."""
    origin: str
    """Run and step in the store that a fork copied it from; empty for an own one."""


@dataclass(frozen=True, slots=True)
class NoCandidate:
    """A step whose operator had no candidate to offer."""

    step: int
    """The number of the step."""
    operator: str
    """The operator that was asked."""
    island: str
    """The population it was asked for; `*` for all."""
    asked_seq: int
    """The newest fact when it was asked."""
    reason: str = ""
    """Its reason; empty for a rule with nothing left."""
    parents: tuple[str, ...] = ()
    """Ids of the parents that it was given."""
    inspirations: tuple[str, ...] = ()
    """Ids of further candidates that it saw."""
    usage: Usage = field(default_factory=Usage)
    """Its cost."""
    exhausted: bool = True
    """True where asking again for these parents is useless; False where a reply was unusable."""
    failed: tuple[Usage, ...] = ()
    """Costs of its calls without a reply, by model; read from the calls, not written with the step."""


def to_json(value: Any) -> str:
    """Return compact JSON. Raises `ValueError` for numbers that JSON has no spelling for."""
    return _ENCODER.encode(value) if value != {} else "{}"  # most panels are empty, and the encoder is slow


def _number(value: float) -> float | str:
    return float(value) if math.isfinite(value) else repr(float(value))  # as text, so that SQLite's JSON reads it


def real(value: float | None) -> float | None:
    """Return the value for a REAL column; NULL stands for NaN."""
    # SQLite would store NaN as NULL, and -0.0 as 0.0, anyway; digests are made of what it returns.
    return None if value is None or math.isnan(value) else float(value) + 0.0


def from_real(value: float | None) -> float:
    """Return the value of a REAL column that was written with `real`."""
    return math.nan if value is None else value


def _numbers_json(values: Mapping[str, float]) -> str:
    return to_json({name: _number(value) for name, value in values.items()})


def _timing_json(timing: Timing) -> dict[str, Any]:
    values = asdict(timing)
    measured = {name: _number(values[name]) for name in _MEASURED if values[name] is not None}
    return values | measured | {"pairs": int(timing.pairs)}


def _speedup(evaluation: Evaluation) -> tuple[float | None, float | None]:
    # Columns for queries only: what cannot be computed is absent there, and the timings are stored all the same.
    try:
        speedup = combined_speedup(evaluation.timings)
    except (ValueError, OverflowError):
        return None, None
    return real(speedup.value), real(speedup.low)


def evaluation_row(evaluation: Evaluation, *, seq: int, origin: str = "") -> tuple[object, ...]:
    """Return the values of `EVALUATION_COLUMNS`."""
    key = evaluation.key
    return (
        seq,
        key.digest,
        *key.fields,
        evaluation.candidate_id,
        str(evaluation.status),
        str(evaluation.stage),
        to_json([_timing_json(timing) for timing in evaluation.timings]),
        to_json({name: [_number(x) for x in (s.value, s.low, s.high)] for name, s in evaluation.panel.items()}),
        _numbers_json(evaluation.descriptor),
        _numbers_json(evaluation.metrics),
        clean(evaluation.feedback),
        evaluation.artifact_hash,
        int(evaluation.stopped_early),
        real(evaluation.duration_s),
        clean(evaluation.sandbox),
        *_speedup(evaluation),
        origin,
    )


def _timing(value: dict[str, Any]) -> Timing:
    measured = {name: float(value[name]) for name in _MEASURED if value[name] is not None}
    limit = value.get("limit")  # older releases wrote none
    names = {"verdict": Verdict(value["verdict"]), "limit": None if limit is None else Limit(limit)}
    return Timing(**value | measured | names)


def _floats(text: str) -> dict[str, float]:
    return {name: float(value) for name, value in json.loads(text).items()} if text != "{}" else {}


def read(row: sqlite3.Row, make: Callable[[sqlite3.Row], T], what: str) -> T:
    """Return the record that `make` builds from a row. Raises `StoreCorrupt` with `what` for an impossible row."""
    try:
        return make(row)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise StoreCorrupt(
            f"the store holds {what} that cannot be read ({type(error).__name__}: {error}); "
            "it was altered by hand or written by another release"
        ) from error


def _evaluation(row: sqlite3.Row) -> Evaluation:
    names = ("program_hash", "task_hash", "device", "environment", "evaluator_version")
    key = EvaluationKey(**{name: row[name] for name in names}, mode=Mode(row["mode"]), budget=Fidelity(row["budget"]))
    panel = json.loads(row["panel"])
    return Evaluation(
        key=key,
        candidate_id=row["candidate"],
        status=Status(row["status"]),
        stage=Stage(row["stage"]),
        timings=tuple(_timing(value) for value in json.loads(row["timings"])),
        panel={name: Speedup(*map(float, values)) for name, values in panel.items()},
        descriptor=_floats(row["descriptor"]),
        metrics=_floats(row["metrics"]),
        feedback=row["feedback"],
        artifact_hash=row["artifact_hash"],
        stopped_early=bool(row["stopped_early"]),
        duration_s=from_real(row["duration_s"]),
        sandbox=row["sandbox"],
    )


def evaluation_of(row: sqlite3.Row) -> Evaluation:
    """Return the evaluation in a row of `EVALUATION_COLUMNS`. Raises `StoreCorrupt`."""
    return read(row, _evaluation, f"an evaluation (seq {row['seq']})")


def stored_evaluation(row: sqlite3.Row) -> StoredEvaluation:
    """Return the evaluation in a row that also has `at`. Raises `StoreCorrupt`."""
    return StoredEvaluation(row["seq"], evaluation_of(row), row["at"], row["origin"])


def usage_values(usage: Usage) -> tuple[object, ...]:
    """Return the values of the usage columns, in their order."""
    return (
        clean(usage.model),
        usage.prompt_tokens,
        usage.completion_tokens,
        real(usage.cost_usd),
        real(usage.duration_s),
    )


def usage_of(row: sqlite3.Row, *, model: str = "model") -> Usage:
    """Return the usage in a row of `PROPOSAL_COLUMNS`, or of another table with such columns."""
    cost_usd, duration_s = from_real(row["cost_usd"]), from_real(row["duration_s"])
    return Usage(row[model], row["prompt_tokens"], row["completion_tokens"], cost_usd, duration_s)


def proposal_row(proposal: Proposal, *, at: float) -> tuple[object, ...]:
    """Return the values of `PROPOSAL_COLUMNS`. A predicted speed-up that is not a number is stored as NULL."""
    return (
        proposal.step,
        proposal.candidate.id,
        clean(proposal.operator),
        clean(proposal.island),
        proposal.asked_seq,
        clean(proposal.rationale),
        real(proposal.predicted_speedup),
        *usage_values(proposal.usage),
        at,
        "",
        to_json(proposal.insights),
        1,
    )


Lineage = tuple[tuple[str, ...], tuple[str, ...]]
"""Parents and inspirations, each in order."""


def proposal_of(row: sqlite3.Row, *, candidate: Candidate, lineage: Lineage) -> Proposal:
    """Return the proposal in a row of `PROPOSAL_COLUMNS`."""
    return Proposal(
        candidate=candidate,
        step=row["step"],
        island=row["island"],
        operator=row["operator"],
        asked_seq=row["asked_seq"],
        parents=lineage[0],
        inspirations=lineage[1],
        rationale=row["rationale"],
        predicted_speedup=row["predicted_speedup"],
        usage=usage_of(row),
        insights=read(row, _insights, f"the insights of step {row['step']}"),
    )


def _insights(row: sqlite3.Row) -> tuple[int, ...]:
    return numbers_of(row["insights"])


def numbers_of(text: str) -> tuple[int, ...]:
    """Return the whole numbers in a JSON list. Raises `ValueError` for anything else."""
    values = json.loads(text)
    if not isinstance(values, list) or not all(type(value) is int for value in values):
        raise ValueError(f"not a list of whole numbers: {text}")
    return tuple(values)


def no_candidate_row(nothing: NoCandidate, *, at: float) -> tuple[object, ...]:
    """Return the values of `PROPOSAL_COLUMNS`: a proposal without a candidate, its rationale the reason."""
    return (
        nothing.step,
        None,
        clean(nothing.operator),
        clean(nothing.island),
        nothing.asked_seq,
        clean(nothing.reason),
        None,
        *usage_values(nothing.usage),
        at,
        "",
        "[]",
        int(nothing.exhausted),
    )


def no_candidate_of(row: sqlite3.Row, *, lineage: Lineage, failed: tuple[Usage, ...] = ()) -> NoCandidate:
    """Return the step without a candidate in a row of `PROPOSAL_COLUMNS`, with the costs of its failed calls."""
    return NoCandidate(
        step=row["step"],
        operator=row["operator"],
        island=row["island"],
        asked_seq=row["asked_seq"],
        reason=row["rationale"],
        parents=lineage[0],
        inspirations=lineage[1],
        usage=usage_of(row),
        exhausted=bool(row["exhausted"]),
        failed=failed,
    )


def candidate_of(row: sqlite3.Row) -> Candidate:
    """Return the candidate in a row with `language` and `body`. Raises `StoreCorrupt`."""
    return Candidate(unpack(row["body"]), row["language"])


def stored_candidate(row: sqlite3.Row) -> StoredCandidate:
    """Return the candidate in a row of `CANDIDATE_COLUMNS` and `body`. Raises `StoreCorrupt`."""
    return StoredCandidate(candidate_of(row), row["program_hash"], row["skeleton"], row["born"], row["origin"])
