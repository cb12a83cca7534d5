"""What an author is told of a worker that failed."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from evokernel.errors import (
    HarnessError,
    KernelFault,
    KilledFromOutside,
    TaskError,
    WorkerDied,
    WorkerError,
    WorkerTimeout,
)
from evokernel.evaluate.bench.candidate_session import WorkerSession
from evokernel.evaluate.bench.feedback import failure
from evokernel.evaluate.bench.workload import WorkloadPurpose
from evokernel.evaluate.judge.checks import check_added, too_slow, try_singled_out
from evokernel.records.evaluation import Mode, Stage, Status
from evokernel.task import Role, Signature, Task, Tensor, Workload, WorkloadSet

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


@pytest.mark.parametrize(("answer", "tried"), [(1.0, True), (math.inf, False), (TaskError("no such size"), False)])
def test_sizes_that_a_candidate_names_are_left_out_where_the_reference_has_no_answer(answer: Any, tried: bool) -> None:
    def case(distribution: str) -> Any:
        if isinstance(answer, TaskError):
            raise answer
        output = SimpleNamespace(high=torch.tensor([1.0, answer]))
        return SimpleNamespace(expected=SimpleNamespace(outputs=(output,)))

    bound = SimpleNamespace(case=case, close=lambda: None, kind=WorkloadPurpose.PROBE, broken_guards=tuple)
    known = (Workload("w", {"N": 900}),)
    probe = WorkloadSet(search=known, holdout=known, probe={"N": (1, 900)})
    tensors = Signature((Tensor("x", ("N",)),), (), (Tensor("y", ("N",), role=Role.OUTPUT),))
    task = Task("t", lambda x, **_: x, signature=tensors, workloads={"cpu": probe}, flops="N")
    bench = SimpleNamespace(
        task=task,
        device=SimpleNamespace(device_class="cpu"),
        rng=np.random.default_rng(0),
        bind_alone=lambda workload: bound,
        spare_memory=lambda bound: None,
    )
    called: list[object] = []
    session: Any = SimpleNamespace(bench=bench, compare=lambda bound, *_: called.append(bound))
    assert try_singled_out(session, (214,), most=3) is None
    assert bool(called) is tried


@pytest.mark.parametrize(("called_s", "elapsed_s", "refused"), [(9, 30, False), (9.1, 30, True), (1, 40, True)])
def test_the_time_of_all_checks_is_that_of_the_calls_as_far_as_a_machine_is_only_busy(
    called_s: float, elapsed_s: float, refused: bool
) -> None:
    task, settings = SimpleNamespace(distributions=("normal", "ones")), SimpleNamespace(timeout_s=2.0)
    session: Any = SimpleNamespace(bench=SimpleNamespace(task=task, settings=settings), called_s=called_s)
    found = too_slow(session, elapsed_s)
    assert (found is not None and found.status is Status.TIMEOUT) is refused


def test_a_session_counts_the_time_of_its_calls() -> None:
    worker = SimpleNamespace(prepare=lambda *_, **__: None, go=lambda timeout_s: 3_000_000_000, ran_ns=0)
    bench: Any = SimpleNamespace(
        workers=SimpleNamespace(load=lambda *_: worker), settings=SimpleNamespace(timeout_s=20.0)
    )
    case = SimpleNamespace(inputs={})
    bound: Any = SimpleNamespace(
        name="w", kind=WorkloadPurpose.SEARCH, case=lambda distribution: case, put=lambda *_, **__: None
    )
    session = WorkerSession(bench, b"", "")
    for _ in range(2):
        session._call(bound, "normal", 0)
    assert session.called_s == 6.0


def test_that_time_ran_out_is_told_everywhere() -> None:
    error = WorkerTimeout("no answer within 20 s; killed")
    for hidden in (False, True):
        found = failure(error, Stage.SMOKE, "on w", hidden=hidden)
        assert (found.status, found.feedback) == (Status.TIMEOUT, "on w: no answer within 20 s; killed")


def test_a_process_that_somebody_killed_is_no_verdict() -> None:
    with pytest.raises(HarnessError, match="on w: the worker was killed by SIGKILL; somebody killed it"):
        failure(KilledFromOutside("the worker was killed by SIGKILL", 9), Stage.SMOKE, "on w")
