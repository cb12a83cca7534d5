"""Least sizes of hidden workloads from which a plain kernel is right, where the reference is another function below."""

import re
from collections.abc import Mapping
from contextlib import suppress

from evokernel.errors import HarnessError, LanguageError, TaskError
from evokernel.scaffold.loops.trace import Traced
from evokernel.scaffold.operation.sizes import NotGeneral
from evokernel.scaffold.project_seeds import check_seed, write_seed
from evokernel.task import Task, Workload

_ABOVE_LEAST = 4
"""What is added to a least size for one at which a kernel is as elsewhere."""
_NUMBER_OF_SIZES = re.compile(r"static_cast<\w+>\([^()]*[-/]")
"""A number that is a size less something, or a part of one, in C++."""


def raised_lows(task: Task, traced: Traced | None) -> dict[str, int]:
    """Return the second least sizes, by dimension, that a plain kernel is right from, where it is wrong at the least.

    With `max(n - 1, 1)` the reference is another function at 1, as with parts that a smaller tensor has not.
    """
    if traced is None or "cpu" not in task.workloads:
        return {}
    task = task.on("cpu")
    workloads = task.workloads["cpu"]
    shown = min(workloads.search, key=task.flops_at).sizes
    ends = {name: workloads.range_of(name, shown) for name in workloads.probe}
    usual = {name: min(low + _ABOVE_LEAST, high) for name, (low, high) in ends.items()}
    with suppress(LanguageError, NotGeneral, TaskError):
        source = write_seed(traced, task.signature)
        if not _NUMBER_OF_SIZES.search(source) or not _holds(task, source, {**shown, **usual}):
            return {}
        lows = [name for name, (low, high) in ends.items() if low < high]
        wrong = [name for name in lows if not _holds(task, source, {**shown, **usual, name: ends[name][0]})]
        return {
            name: ends[name][0] + 1
            for name in wrong
            if _holds(task, source, {**shown, **usual, name: ends[name][0] + 1})
        }
    return {}


def _holds(task: Task, source: str, dims: Mapping[str, int]) -> bool:
    try:
        check_seed(task, source, [Workload("least", dims)])
    except HarnessError:
        return False
    return True
