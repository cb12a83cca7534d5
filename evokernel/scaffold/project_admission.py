"""Admission of a new project's task, and the distributions on which honest answers would be refused."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from evokernel.errors import TaskError
from evokernel.evaluate.bench.admission import admit
from evokernel.scaffold.distributions import gives_nan, restricted
from evokernel.scaffold.task_text import TaskDraft
from evokernel.task import Task, Workload, WorkloadSet

_TRIED_WITHOUT_GPU_BYTES = 1 << 19
"""Size of the tensors that GPU workloads are tried with on a processor."""

_TRIED_WITHOUT_GPU_FLOPS = 50_000_000
"""Operations of such a workload: it is computed a hundred times, in fp64 too."""

_LARGER = 16
"""Times as large a workload is tried where a task is refused on that one."""

_FEWER = (("wide",), ("offset",), ("wide", "offset"), ("wide", "offset", "needles"))
"""Distributions that are left out, in this order, where honest answers are refused on them."""

_TRIES = 3
"""Admissions of such a task: inputs and sizes are random, and one may pass by luck."""


def with_results(
    draft: TaskDraft, signs: Mapping[str, tuple[float, float]], written: Callable[[TaskDraft], Task]
) -> tuple[TaskDraft, Task]:
    """Return the draft with the distributions on which the reference has results, and its task.

    Where numbers of the signs of the example have results throughout, and others have not, it keeps to these. `written`
    writes a task. Raises `TaskError` where the reference has hardly any result.
    """
    found, failed = list[TaskDraft](), list[TaskError]()
    for each in [draft, replace(draft, signs=signs)][: 1 + bool(signs)]:
        try:
            task = written(each)
            each = replace(each, distributions=restricted(task))
        except TaskError as error:
            failed.append(error)
            continue
        if not each.distributions and not (signs and gives_nan(task)):
            return each, task
        found.append(each)
    if not found:
        raise failed[0]
    return found[0], written(found[0])


def admission_of(
    draft: TaskDraft,
    task: Task,
    signs: Mapping[str, tuple[float, float]],
    written: Callable[[TaskDraft], Task],
    *,
    fewer_distributions: bool,
) -> tuple[TaskDraft, Task, str, str]:
    """Return draft and task as they are fit to judge kernels, the result of the admission, or nothing and the reason.

    Where honest answers are refused, numbers keep to the signs of the example, or distributions are left out. With
    `fewer_distributions` they are left out for any other reason, too, and each admission must hold several times.
    """
    times = _TRIES if fewer_distributions else 1
    admission, unfit = _admission(task, times=times)
    if not unfit:
        return draft, task, admission, ""
    if signs and not draft.signs:
        narrow = replace(draft, signs=signs)
        other = written(narrow)
        found, worse = _admission(other, times=times)
        if not worse:
            return narrow, other, found, ""
    for fewer in _FEWER if fewer_distributions or "(distribution " in unfit else ():
        kept = tuple(each for each in task.declared if each not in fewer)
        found, worse = _admission(replace(task, distributions=kept), times=_TRIES)
        if not worse:
            draft = replace(draft, distributions=kept, left_out=fewer)
            return draft, written(draft), found, ""
    return draft, written(draft), "", unfit


def _admission(task: Task, *, times: int = 1) -> tuple[str, str]:
    """Return the result of the admission on each device class and nothing, or nothing and the reason against it."""
    found = []
    try:
        for device in task.workloads:
            said = [_admitted(task.on(device), device) for _ in range(times)]
            found.append(f"{device}: {said[-1]}")
    except TaskError as error:
        return "", str(error)
    return "; ".join(found), ""


def _admitted(task: Task, device: str) -> str:
    """Return the result of an admission, that of a task for GPUs on sizes that a processor can try.

    Raises `TaskError` as `admit`.
    """
    if device != "cuda":
        return admit(task, device, rng=np.random.default_rng()).message
    small, larger = _shrunk(task), _shrunk(task, times=_LARGER)
    try:
        return admit(small, device, rng=np.random.default_rng()).message
    except TaskError:
        if larger.workloads == small.workloads:
            raise
        # the end of a wide window lies beyond the edges of a small image
        return admit(larger, device, rng=np.random.default_rng()).message


def _shrunk(task: Task, *, times: int = 1) -> Task:
    """Return a task for GPUs with a search workload that a processor can try; `times` as large a one."""
    ((device, workloads),) = task.workloads.items()
    sizes, small = dict(workloads.search[0].sizes), Workload("small", workloads.search[0].sizes)
    weights = task.bytes_at(Workload("least", {**small.dims, **_least(workloads, sizes)}))  # no smaller at any size
    most_bytes, most_flops = weights + times * _TRIED_WITHOUT_GPU_BYTES, times * _TRIED_WITHOUT_GPU_FLOPS
    while task.bytes_at(small) > most_bytes or task.flops_at(small) > most_flops:
        least = _least(workloads, sizes)
        wide = [name for name, size in sizes.items() if size // 2 >= max(least[name], 1)]
        if not wide:
            break
        sizes[max(wide, key=lambda name: sizes[name])] //= 2
        small = Workload("small", dict(sizes))
    return replace(task, workloads={device: replace(workloads, search=(small,))})


def _least(workloads: WorkloadSet, sizes: Mapping[str, int]) -> dict[str, int]:
    return {name: workloads.range_of(name, sizes)[0] if name in workloads.probe else 1 for name in sizes}
