"""An evaluation as JSON: the one document from which every command selects fields; docs/json.md describes them."""

from collections.abc import Callable, Mapping
from typing import Any

from evokernel.records.evaluation import Evaluation, Fidelity, Stage
from evokernel.records.timing import Speedup, Timing

_TIMED = {Fidelity.QUICK: Stage.QUICK, Fidelity.PRECISE: Stage.PRECISE, Fidelity.FINAL: Stage.FINAL}
_CHECKS = (Stage.STATIC, Stage.COMPILE, Stage.SMOKE, Stage.CORRECTNESS, Stage.SANITIZER)


def evaluation_document(evaluation: Evaluation, *names: str) -> dict[str, Any]:
    """Return an evaluation as JSON values: the named fields in their order, or all where none is named."""
    return {name: _FIELDS[name](evaluation) for name in names or _FIELDS}


def stages_of(evaluation: Evaluation) -> list[tuple[Stage, str]]:
    """Return the steps of the cascade with `passed`, `failed`, `skipped` or `not reached`."""
    stages = [*_CHECKS, _TIMED[evaluation.key.budget]]
    reached = stages.index(evaluation.stage) if evaluation.stage in stages else len(stages) - 1
    words = ["passed"] * reached + ["passed" if evaluation.ok else "failed"]
    if reached > stages.index(Stage.SANITIZER) and not evaluation.metrics.get("sanitized"):
        words[stages.index(Stage.SANITIZER)] = "skipped"  # no sanitizers here, or they ran out of time
    return list(zip(stages, words + ["not reached"] * (len(stages) - len(words)), strict=True))


def speedup_document(speedup: Speedup) -> dict[str, float | None]:
    """Return a speed-up with its interval."""
    return numbers_document(fields_document(speedup, "value", "low", "high"))


def fields_document(record: object, *names: str) -> dict[str, Any]:
    """Return fields of a record by their names, in this order and as they are."""
    return {name: getattr(record, name) for name in names}


def numbers_document(values: Mapping[str, float]) -> dict[str, float | None]:
    """Return numbers by name, with None for those that JSON cannot spell."""
    return {name: value if value - value == 0 else None for name, value in values.items()}


def _timing(timing: Timing) -> dict[str, Any]:
    return {
        "name": timing.workload,
        **fields_document(timing, "baseline", "candidate_us", "baseline_us"),
        "speedup": speedup_document(timing.speedup),
        "verdict": timing.verdict.value,
        **fields_document(timing, "pairs", "floor_us", "floor_share"),
        "limit": timing.limit.value if timing.limit else None,
    }


_FIELDS: Mapping[str, Callable[[Evaluation], Any]] = {
    "budget": lambda of: of.key.budget.value,
    "mode": lambda of: of.key.mode.value,
    "nondeterministic": lambda of: of.nondeterministic,
    "status": lambda of: of.status.value,
    "stage": lambda of: of.stage.value,
    "stages": lambda of: {stage.value: word for stage, word in stages_of(of)},
    "device": lambda of: of.key.device,
    "environment": lambda of: of.key.environment,
    "feedback": lambda of: of.feedback,
    "speedup": lambda of: speedup_document(of.speedup) if of.speedup else None,
    "baselines": lambda of: {name: speedup_document(speedup) for name, speedup in of.panel.items()},
    "workloads": lambda of: [_timing(timing) for timing in of.timings],
    "descriptor": lambda of: numbers_document(of.descriptor),
    "metrics": lambda of: numbers_document(of.metrics),
    "duration_s": lambda of: of.duration_s,
    "stopped_early": lambda of: of.stopped_early,
}
