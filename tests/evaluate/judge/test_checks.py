"""What an author is told of a worker that failed."""

from types import SimpleNamespace
from typing import Any

import pytest

from evokernel.errors import HarnessError, KernelFault, KilledFromOutside, WorkerDied, WorkerError, WorkerTimeout
from evokernel.evaluate.bench.feedback import failure
from evokernel.evaluate.bench.workload import WorkloadPurpose
from evokernel.evaluate.judge.checks import check_added
from evokernel.records.evaluation import Mode, Stage, Status

FAULTS = [
    (KernelFault("ValueError: N is 137", "host", 137), Status.HOST_EXCEPTION, "raised"),
    (KernelFault("Rows137: wrong", "host", 12), Status.HOST_EXCEPTION, "raised"),
    (KernelFault("AcceleratorError: N is 137", "device"), Status.DEVICE_FAULT, "failed on the GPU"),
    (KernelFault("OutOfMemoryError: N is 137", "memory"), Status.OUT_OF_MEMORY, "no device memory"),
    (WorkerDied("the worker was killed by SIGABRT; it wrote: N is 137", 6), Status.WORKER_DIED, "SIGABRT"),
    (WorkerDied("the worker exited with 137", exit_code=137), Status.WORKER_DIED, "ed"),
    (WorkerDied("killed by SIGABRT; it wrote: std::bad_alloc 137", 6), Status.OUT_OF_MEMORY, "could not be allocated"),
    (WorkerDied("exited with 70; it wrote: MemoryError: 137 bytes", exit_code=70), Status.OUT_OF_MEMORY, "allocated"),
]


@pytest.mark.parametrize(("error", "status", "kind"), FAULTS)
def test_a_candidates_own_words_are_passed_on_where_nothing_is_hidden(error: WorkerError, status: Status, kind: str):
    told, kept = failure(error, Stage.SMOKE, "on w"), failure(error, Stage.SMOKE, "on a hidden shape", hidden=True)
    assert told.status is kept.status is status
    assert kind in told.feedback
    assert kind in kept.feedback
    assert "137" in told.feedback
    assert "137" not in kept.feedback


def test_a_worker_cannot_tell_of_hidden_shapes_where_it_ends_on_another() -> None:
    def ends(*_: object) -> None:
        raise WorkerDied("the worker was killed by SIGABRT; it wrote: 37x701 17x63", 6)

    bound: Any = SimpleNamespace(
        label="1024x1024", hidden=False, kind=WorkloadPurpose.SEARCH, distributions=("normal",), broken_guards=tuple
    )
    bench = SimpleNamespace(spare_memory=lambda bound: None, added=(bound,), workloads=())
    session: Any = SimpleNamespace(bench=bench, compare=ends, mode=Mode.WORKER)
    found = check_added(session)
    assert found.status is Status.WORKER_DIED
    assert found.feedback == "on 1024x1024: killed by SIGABRT"


def test_that_time_ran_out_is_told_everywhere() -> None:
    error = WorkerTimeout("no answer within 20 s; killed")
    for hidden in (False, True):
        found = failure(error, Stage.SMOKE, "on w", hidden=hidden)
        assert (found.status, found.feedback) == (Status.TIMEOUT, "on w: no answer within 20 s; killed")


def test_a_process_that_somebody_killed_is_no_verdict() -> None:
    with pytest.raises(HarnessError, match="on w: the worker was killed by SIGKILL; somebody killed it"):
        failure(KilledFromOutside("the worker was killed by SIGKILL", 9), Stage.SMOKE, "on w")
