"""Distributions of inputs on which a reference has a result, and one alone."""

from contextlib import suppress

import numpy as np

from evokernel.errors import TaskError
from evokernel.evaluate.bench.admission_conversions import undefined_conversion
from evokernel.evaluate.bench.admission_variants import attempt
from evokernel.evaluate.numerics.hidden_shapes import probe_workloads
from evokernel.evaluate.numerics.inputs import draw
from evokernel.task import Task

_DRAWS = 3
"""Inputs that are drawn for each distribution and each small workload."""


def restricted(task: Task) -> tuple[str, ...]:
    """Return the distributions on which the reference has one result; nothing where these are all or none.

    It has none where it raises, as a factor of Cholesky does of a matrix that is not positive.
    """
    device, rng = next(iter(task.workloads)), np.random.default_rng()
    tried, workloads = task.on(device), probe_workloads(task.workloads[device], rng)
    with suppress(TaskError):  # the admission says it
        kept = list[str]()
        for name in task.distributions:
            given = [(each, draw(tried, each, name, rng)) for each in workloads for _ in range(_DRAWS)]
            # on the second shape: the first is the least, and converts few numbers
            defined = not undefined_conversion(tried, *given[_DRAWS])
            if defined and all(attempt(tried, *each) is not None for each in given):
                kept.append(name)
        return tuple(kept) if tuple(kept) != task.distributions else ()
    return ()
