"""The judge's end of a runner, against a process without a GPU that misbehaves."""

import contextlib
import os
import signal
import time
from typing import Any

import pytest

from evokernel.errors import HarnessError, KernelFault, WorkerDied, WorkerError, WorkerTimeout
from evokernel.evaluate.artifact_mode.runner_pool import ArtifactRunner, Batch
from evokernel.evaluate.memory.arena import HostArena
from evokernel.evaluate.worker_mode.cpu_pool import LoadFailed
from evokernel.task import Role, Signature, Tensor
from tests.evaluate.artifact_mode.stand_in_runner import (
    CUBINS,
    NS_PER_CALL,
    OUTER_NS_PER_CALL,
    PATIENCE_S,
    WRONG,
    StandInHost,
    batch,
    descriptors_held,
    go_through,
    is_gone,
    load,
    said,
    wait_for_end,
)


@pytest.mark.parametrize("spin", [False, True])
def test_batches_are_run_and_timed_by_both_clocks(host: StandInHost, spin: bool):
    with ArtifactRunner(host, spin=spin) as runner:
        runner.wait_ready()
        runner.wait_ready()
        load(runner)
        for sets in ((0,), (0, 1, 2), ()):
            began = time.monotonic_ns()
            fired = batch(runner, *sets)
            assert fired.device_ns == NS_PER_CALL * len(sets)
            if spin:
                assert 0 < fired.outer_ns <= time.monotonic_ns() - began
            else:  # a judge that sleeps while it waits takes the runner's clock, which no wake-up lengthens
                assert fired.outer_ns == OUTER_NS_PER_CALL * len(sets)
        runner.drop()
        load(runner)
        assert batch(runner, 5).device_ns == NS_PER_CALL
        assert runner.alive
        assert runner.candidates == 2


def test_a_runner_that_lost_its_core_says_so(runner: ArtifactRunner):
    load(runner)
    assert any(not batch(runner, 0).interrupted for _ in range(5000)), "a busy machine interrupts most, but not all"
    runner.drop()
    load(runner, on="interruption")
    assert all(batch(runner, 0).interrupted for _ in range(5))


def test_a_batch_that_was_armed_is_not_run_before_it_is_fired(runner: ArtifactRunner):
    load(runner, on="go", exits=3)
    runner.arm(Batch("x:1", 0, (0,), 0))
    runner.armed(PATIENCE_S)
    assert runner.alive
    with pytest.raises(WorkerDied, match="exited with 3"):
        runner.fire(PATIENCE_S)


def test_kernels_arrive_by_digest(runner: ArtifactRunner):
    with pytest.raises(KernelFault, match=" ".join(f"cubins/{digest}" for digest in CUBINS)):
        load(runner, on="echo")


def test_an_arena_is_mapped_under_its_name(runner: ArtifactRunner):
    signature = Signature((Tensor("x", ("N",)),), (), (Tensor("y", ("N",), role=Role.OUTPUT),))
    with HostArena.for_signature(signature, {"N": 8}, sets=2) as arena:
        runner.attach("x:1", arena, {})
        assert runner.alive
        with pytest.raises(HarnessError, match="cannot map the buffers of other"):
            runner.attach("other", arena, {})
    assert not runner.alive


def test_more_kernels_than_a_bundle_holds_are_the_candidates_fault(runner: ArtifactRunner):
    with pytest.raises(LoadFailed, match="at most 1024 files"):
        runner.load({}, {f"{number:064x}": b"" for number in range(1024)}, timeout_s=PATIENCE_S)
    assert runner.alive
    load(runner)


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("event", ["load", "go"])
def test_what_goes_wrong_ends_the_runner_and_says_how(runner: ArtifactRunner, event: str, name: str):
    deed, error, words = WRONG[name]
    with pytest.raises(error, match=words) as caught:
        go_through(runner, on=event, **deed)
    assert type(caught.value) is error
    assert not runner.alive
    assert is_gone(runner.pid)


@pytest.mark.parametrize("event", ["batch", "drop"])
def test_a_fault_is_heard_whenever_it_comes(runner: ArtifactRunner, event: str):
    with pytest.raises(KernelFault, match="CUDA error 700"):
        go_through(runner, on=event, **said("CUDA error 700"))
    assert not runner.alive


@pytest.mark.parametrize("event", ["load", "batch", "go"])
def test_no_answer_in_time_ends_the_runner(runner: ArtifactRunner, event: str):
    with pytest.raises(WorkerTimeout, match=r"no answer within 0\.2 s"):
        go_through(runner, on=event, timeout_s=0.2, hangs=True)
    assert not runner.alive
    assert is_gone(runner.pid)


@pytest.mark.parametrize("kind", ["device", "memory"])
def test_a_fault_is_of_a_kind(runner: ArtifactRunner, kind: str):
    with pytest.raises(KernelFault) as caught:
        load(runner, on="load", **said("out of memory", kind))
    assert caught.value.kind == kind


def test_deep_garbage_is_garbage_too(runner: ArtifactRunner):
    with pytest.raises(WorkerDied, match="answered out of turn"):
        load(runner, on="load", says=60_000 * "[")


def test_a_runner_that_is_gone_stays_gone(runner: ArtifactRunner):
    with pytest.raises(WorkerDied):
        load(runner, on="load", exits=0)
    for use in (load, lambda gone: gone.arm(Batch("x:1", 0, (), 0)), ArtifactRunner.drop):
        with pytest.raises(WorkerDied, match="exited with 0"):
            use(runner)


def test_a_runner_that_dies_by_itself_is_seen_to_be_gone(runner: ArtifactRunner):
    assert runner.alive
    os.kill(runner.pid, signal.SIGKILL)
    wait_for_end(runner.pid)
    assert not runner.alive


def test_closing_twice_and_what_is_left_then(host: StandInHost):
    runner = ArtifactRunner(host, spin=False)
    assert runner.alive
    runner.close()
    runner.close()
    assert not runner.alive
    assert is_gone(runner.pid)
    assert not host.processes
    for use in (load, lambda closed: closed.arm(Batch("x:1", 0, (), 0))):
        with pytest.raises(HarnessError, match="was closed"):
            use(runner)


@pytest.mark.parametrize(
    ("deed", "error"),
    [(said("no device", "ours"), HarnessError), (said("no"), KernelFault), ({"exits": 1}, WorkerDied)],
)
def test_a_context_that_cannot_be_made(host: StandInHost, deed: dict[str, Any], error: type[Exception]):
    host.scripts.append({"on": "up", **deed})
    with ArtifactRunner(host, spin=False) as runner:
        with pytest.raises(error):
            runner.wait_ready()
        assert not runner.alive


def test_a_host_that_cannot_start_a_process_is_told_of(host: StandInHost):
    host.exhausted = True
    before = descriptors_held()
    with pytest.raises(HarnessError, match="no more processes"):
        ArtifactRunner(host, spin=False)
    assert descriptors_held() == before


def test_no_descriptor_is_left_of_runners_however_they_end(host: StandInHost):
    before = descriptors_held()
    for plan in ({}, {"on": "load", "exits": 1}, {"on": "go", **said("CUDA error 700")}, {"on": "drop", "signal": 9}):
        use_once(host, plan)
    assert descriptors_held() == before


def use_once(host: StandInHost, plan: dict[str, Any]) -> None:
    with ArtifactRunner(host, spin=False) as runner, contextlib.suppress(WorkerError):
        go_through(runner, **{"on": "never", **plan})
