"""Admission of a new project's task, and the distributions on which honest answers would be refused."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from evokernel.errors import TaskError
from evokernel.evaluate.bench.admission import admit
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


def admission_of(task: Task, *, fewer_distributions: bool) -> tuple[tuple[str, ...], str, str]:
    """Return the distributions to leave out, the result of the admission, and the reason where the task is unfit.

    Distributions are left out where honest answers are refused on them, and not on the others. With
    `fewer_distributions` they are left out for any other reason, too, and each admission must hold several times.
    """
    admission, unfit = _admission(task, times=_TRIES if fewer_distributions else 1)
    for fewer in _FEWER if unfit and (fewer_distributions or "(distribution " in unfit) else ():
        kept = tuple(each for each in task.declared if each not in fewer)
        found, better = _admission(replace(task, distributions=kept), times=_TRIES)
        if not better:
            return fewer, found, ""
    return (), admission, unfit


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
