"""Distributions of inputs on which a reference has a result, and one alone."""

from collections.abc import Mapping
from contextlib import suppress

import numpy as np
import torch

from evokernel.errors import TaskError
from evokernel.evaluate.bench.admission_conversions import undefined_conversion
from evokernel.evaluate.bench.admission_variants import Answers, attempt
from evokernel.evaluate.numerics.arrays import Array
from evokernel.evaluate.numerics.hidden_shapes import greatest_workload, probe_workloads
from evokernel.evaluate.numerics.inputs import draw
from evokernel.evaluate.numerics.references import high_answer
from evokernel.task import Task, Workload

_MANY_UNDEFINED = 0.25
"""Share of results that are NaN above which a task does not tell right from wrong."""
_DRAWS = 3
"""Inputs that are drawn for each distribution and each small workload."""
_LARGE_BYTES = 1 << 26
"""Size of the tensors of a workload above which they are drawn once: a deep network has many weights."""


def restricted(task: Task) -> tuple[str, ...]:
    """Return the distributions on which the reference has one result; nothing where these are all or none.

    It has none where it raises, as a factor of Cholesky does of a matrix that is not positive. Where it gives NaN in
    each draw, and numbers in fp64, it overflows on the way: which results are NaN depends on the order of operations.
    The greatest hidden shape is always tried: results grow with sizes, and those that are drawn may be small by chance.

    Raises:
        TaskError: on all of them many results are NaN.
    """
    shares = list[float]()
    device, rng = next(iter(task.workloads)), np.random.default_rng()
    tried, offered = task.on(device), task.workloads[device]
    found = (*probe_workloads(offered, rng), greatest_workload(offered))
    workloads = [each for place, each in enumerate(found) if each.dims not in [other.dims for other in found[:place]]]
    second = workloads[min(1, len(workloads) - 1)]
    with suppress(TaskError):  # the admission says it
        kept = list[str]()
        for name in task.distributions:
            right = True
            for each in workloads:
                overflows = True
                for _ in range(_DRAWS if task.bytes_at(each) <= _LARGE_BYTES else 1):
                    inputs = draw(tried, each, name, rng)
                    answer = attempt(tried, each, inputs)
                    right &= answer is not None
                    shares += [] if answer is None else [_undefined(answer)]
                    overflows = overflows and answer is not None and _overflows(tried, each, inputs, answer)
                right &= not overflows
                # the first shape is the least, and converts few numbers
                right &= each is not second or not undefined_conversion(tried, each, inputs)
            if right:
                kept.append(name)
        if min(shares, default=0.0) <= _MANY_UNDEFINED:
            return tuple(kept) if tuple(kept) != task.distributions else ()
    if min(shares, default=0.0) > _MANY_UNDEFINED:
        raise TaskError(
            f"{task.name} gives NaN for {min(shares):.0%} or more of its results on all random inputs, so that right "
            "and wrong ones look alike. Make inputs that it takes in the function, for example x @ x.mT + n * "
            "torch.eye(n, device=x.device) for a matrix that must be positive, or x.abs() for what must not be negative"
        )
    return ()


def gives_nan(task: Task) -> bool:
    """Say whether the reference has NaN, or no result, on ordinary numbers."""
    device, rng = next(iter(task.workloads)), np.random.default_rng()
    # the first hidden shape is the least: one or two numbers have the sign that is needed by chance
    tried, several = task.on(device), probe_workloads(task.workloads[device], rng)[1]
    answer = attempt(tried, several, draw(tried, several, "normal", rng))
    return answer is None or _undefined(answer) > 0


def _overflows(task: Task, workload: Workload, inputs: Mapping[str, Array], answers: Answers) -> bool:
    """Say whether results are NaN that are numbers in fp64."""
    if not _undefined(answers):
        return False
    return any(
        bool((one.isnan() & ~high.isnan()).any())
        for one, high in zip(answers, high_answer(task, workload, inputs), strict=True)
    )


def _undefined(answers: Answers) -> float:
    """Return the share of the results that are NaN."""
    floats = torch.cat([each.reshape(-1).double() for each in answers])
    return float(floats.isnan().double().mean()) if floats.numel() else 0.0
