"""Distributions of inputs on which a reference has a result, and one alone."""

from contextlib import suppress

import numpy as np
import torch

from evokernel.errors import TaskError
from evokernel.evaluate.bench.admission_conversions import undefined_conversion
from evokernel.evaluate.bench.admission_variants import Answers, attempt
from evokernel.evaluate.numerics.hidden_shapes import probe_workloads
from evokernel.evaluate.numerics.inputs import draw
from evokernel.task import Task

_MANY_UNDEFINED = 0.25
"""Share of results that are NaN above which a task does not tell right from wrong."""
_DRAWS = 3
"""Inputs that are drawn for each distribution and each small workload."""


def restricted(task: Task) -> tuple[str, ...]:
    """Return the distributions on which the reference has one result; nothing where these are all or none.

    It has none where it raises, as a factor of Cholesky does of a matrix that is not positive.

    Raises:
        TaskError: on all of them many results are NaN.
    """
    shares = list[float]()
    device, rng = next(iter(task.workloads)), np.random.default_rng()
    tried, workloads = task.on(device), probe_workloads(task.workloads[device], rng)
    with suppress(TaskError):  # the admission says it
        kept = list[str]()
        for name in task.distributions:
            given = [(each, draw(tried, each, name, rng)) for each in workloads for _ in range(_DRAWS)]
            # on the second shape: the first is the least, and converts few numbers
            defined = not undefined_conversion(tried, *given[_DRAWS])
            answers = [attempt(tried, *each) for each in given]
            shares += [_undefined(answer) for answer in answers if answer is not None]
            if defined and None not in answers:
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


def _undefined(answers: Answers) -> float:
    """Return the share of the results that are NaN."""
    floats = torch.cat([each.reshape(-1).double() for each in answers])
    return float(floats.isnan().double().mean()) if floats.numel() else 0.0
