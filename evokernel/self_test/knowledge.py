"""Knowledge of a task for cheats: calls, timing and tolerances of its kernel."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from evokernel.evaluate.numerics.arrays import identical, store
from evokernel.evaluate.numerics.expected import Expected, ExpectedOutput
from evokernel.evaluate.numerics.inputs import draw, result_tensors
from evokernel.evaluate.numerics.tolerance import expect
from evokernel.records.evaluation import Evaluation
from evokernel.records.timing import Timing
from evokernel.self_test.wrapping import CallCounts
from evokernel.task import Role, Scalar, Task

_WARMED_US = 10_000.0
_BATCH_US = 3000.0
_ROOM_BYTES = 32 << 20
_MOST_CALLS = 512
_LEAST_RARE = 40
_WIDE = ("float32", "float64")


@dataclass(frozen=True, slots=True)
class TaskKnowledge:
    """Knowledge that cheats are made with."""

    task: Task
    paces: tuple[CallCounts, ...]
    """By search workload."""
    bias: tuple[float, ...]
    """Relative error that tolerances begin with, by written tensor."""
    lacks: Mapping[str, str]
    """Reason by missing need."""


def look(task: Task, judged: Evaluation) -> TaskKnowledge:
    """Return the knowledge that a task and the evaluation of a right kernel give an attacker.

    Args:
        task: as it is on the class of devices.
        judged: the evaluation; it must be ok.

    Raises:
        TaskError: the reference failed.
    """
    (workloads,) = task.workloads.values()
    timings = {timing.workload: timing for timing in judged.timings}
    paces = tuple(_pace(task, timings[workload.name], task.bytes_at(workload)) for workload in workloads.search)
    least = min(workloads.search, key=task.bytes_at)
    inputs = draw(task, least, least.distribution, np.random.default_rng())
    expected = expect(task, least, inputs, distribution=least.distribution)
    lacks = {need: reason for need, (has, reason) in _NEEDS.items() if not has(task, judged, expected)}
    return TaskKnowledge(task, paces, tuple(map(_bias, expected.outputs)), lacks)


def look_on_gpu(task: Task) -> TaskKnowledge:
    """Return the knowledge that a task gives an attacker on a GPU, where cheats need no more than its signature."""
    return TaskKnowledge(task, (), (), {need: reason for need, (has, reason) in _GPU_NEEDS.items() if not has(task)})


def _pace(task: Task, timing: Timing, moved_bytes: int) -> CallCounts:
    checks = len(task.declared) + 2  # the judge adds a distribution, and repeats the first
    in_time = _BATCH_US / max(timing.baseline_us, timing.candidate_us / 4)
    batch = min(in_time, _ROOM_BYTES / max(moved_bytes, 1), _MOST_CALLS)
    # there are at least five batches: with four rare calls in each, some are not warm-up calls
    return CallCounts(checks, rarity=max(1, min(_LEAST_RARE, int(batch / 4))))


def _bias(output: ExpectedOutput) -> float:
    limits = output.limits
    return limits.rms / limits.scale if limits.scale > 0 else 1.0


def _rounds(output: ExpectedOutput) -> bool:
    if output.tensor.dtype not in _WIDE:
        return False
    return not identical(store(store(output.native, "bfloat16"), output.tensor.dtype), output.native)


def _reads(task: Task, kind: str = "") -> int:
    return sum(each.role is Role.INPUT and kind in each.dtype for each in task.signature.inputs)


_Has = Callable[[Task, Evaluation, Expected], bool]
_NEEDS: Mapping[str, tuple[_Has, str]] = {
    "an input": (lambda task, _, __: _reads(task) > 0, "there is no input that is only read"),
    "several inputs": (lambda task, _, __: _reads(task) > 1, "there are not two inputs that are only read"),
    "an input of floating-point numbers": (
        lambda task, _, __: _reads(task, "float") > 0,
        "no input that is only read holds floating-point numbers",
    ),
    "a result of floating-point numbers": (
        lambda _, __, expected: any("float" in output.tensor.dtype for output in expected.outputs),
        "all results are whole numbers",
    ),
    "results that bfloat16 does not hold": (
        lambda _, __, expected: any(map(_rounds, expected.outputs)),
        "bfloat16 holds the results exactly",
    ),
    "sizes that vary": (
        lambda task, _, __: any(isinstance(each, Scalar) and each.dtype == "int64" for each in task.signature.scalars),
        "all sizes are fixed",
    ),
    "sanitizers": (
        lambda _, judged, __: bool(judged.metrics.get("sanitized")),
        "no sanitizers here, or the kernel is too slow under them",
    ),
    "calls that are warmed up": (
        lambda _, judged, __: any(timing.candidate_us < _WARMED_US for timing in judged.timings),
        "the kernel is too slow to be warmed up",
    ),
}
_GPU_NEEDS: Mapping[str, tuple[Callable[[Task], bool], str]] = {
    "an input": (lambda task: _reads(task) > 0, _NEEDS["an input"][1]),
    "an input like a result": (
        lambda task: any(
            (each.shape, each.dtype) == (output.shape, output.dtype) and each.role is Role.INPUT
            for each in task.signature.inputs
            for output in task.signature.outputs
        ),
        "no input has the shape and dtype of a result",
    ),
    "a result of floating-point numbers": (
        lambda task: any("float" in output.dtype for output in result_tensors(task)),
        _NEEDS["a result of floating-point numbers"][1],
    ),
    "results that are outputs only": (
        lambda task: all(each.role is Role.INPUT for each in task.signature.inputs),
        "a result is updated in place",
    ),
}
NEEDS = (*_NEEDS, *_GPU_NEEDS)
"""Means that a cheat may need of a task."""
