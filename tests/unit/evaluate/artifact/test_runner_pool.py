"""The judge's end of a runner, against a process without a GPU that speaks a runner's language and then misbehaves."""

import contextlib
import itertools
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from evokernel.errors import HarnessError, KernelFault, WorkerDied, WorkerError, WorkerTimeout
from evokernel.evaluate.arena import HostArena
from evokernel.evaluate.artifact.runner import CANDIDATES_PER_RUNNER, ArtifactRunner, Batch, RunnerPool
from evokernel.evaluate.sandbox import INSIDE
from evokernel.evaluate.worker_pool import LoadFailed
from evokernel.evaluate.zygote_host import Ending, Fork
from evokernel.task import Role, Signature, Tensor

PATIENCE_S = 30.0
NS_PER_CALL = 1500.0  # as the stand-in says
CUBINS = {64 * "a": b"first", 64 * "b": b"second"}

# A plan says what goes wrong, and when: before it is "up", on "load", on "batch" (before it is armed), "go" or "drop".
STAND_IN = """
import json, os, signal, socket, sys, time

folder, channel, page, plan = sys.argv[1:]
sys.path.append(folder)
from inside.bundle import unpack
from inside.flags import Flags

channel, flags, plan = socket.socket(fileno=int(channel)), Flags(int(page)), json.loads(plan)


def come(event):
    deed = plan if plan.get("on") == event else {}
    match deed:
        case {"says": text}:
            channel.send(text.encode("latin-1"))
        case {"exits": code}:
            print("bye", file=sys.stderr, flush=True)
            os._exit(code)
        case {"signal": number}:
            os.kill(os.getpid(), number)
        case {"hangs up": True}:
            channel.close()
    if deed:
        time.sleep(600)


def run(request):
    come("batch")
    flags.armed = request["number"]
    while flags.go < request["number"]:
        time.sleep(0)
    come("go")
    flags.finish(request["number"], device_ns=1500.0 * len(request["sets"]))


come("up")
channel.send(b"up")
while True:
    message, descriptors, _, _ = socket.recv_fds(channel, 65536, 2)
    if not message:
        break
    match json.loads(message):
        case {"load": True}:
            with open(descriptors[0], "rb") as file:
                files = unpack(file.read())
            plan = json.loads(files.pop("plan.json"))
            if plan.get("on") == "echo":
                plan = {"on": "load", "says": json.dumps({"fault": "device", "text": " ".join(sorted(files))})}
            come("load")
            channel.send(b"loaded")
        case {"drop": True}:
            come("drop")
            channel.send(b"dropped")
        case {"attach": name, "buffers": buffers}:
            for descriptor in descriptors:
                os.close(descriptor)
            known = name == "x:1" and len(descriptors) == 2 and [each[0] for each in buffers] == ["x", "y"]
            channel.send(b"attached" if known else b"no")
        case {"batch": "x:1", **request}:
            run(request)
"""


class StandInHost:
    """What a zygote does for the judge, done by plain processes.

    `scripts` say what goes wrong with the next ones before they are up; `processes` are those not yet forgotten; none
    can be started while it is `exhausted`.
    """

    def __init__(self) -> None:
        self.scripts: list[dict[str, Any]] = []
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.exhausted = False
        self._numbers = itertools.count(100)  # not those of batches

    def fork(self, descriptors: Sequence[int]) -> Fork:
        if self.exhausted:
            raise HarnessError("no more processes")
        channel, page, stderr = descriptors
        script = json.dumps(self.scripts.pop(0) if self.scripts else {})
        argv = [sys.executable, "-ISc", STAND_IN, str(INSIDE.parent), str(channel), str(page), script]
        process = subprocess.Popen(argv, pass_fds=(channel, page), stderr=stderr)
        number = next(self._numbers)
        self.processes[number] = process
        return Fork(number, os.pidfd_open(process.pid))

    def ending(self, number: int, timeout_s: float) -> Ending | None:
        try:
            code = self.processes[number].wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        return Ending(-code if code < 0 else code << 8, 0, 0)

    def forget(self, number: int) -> Ending | None:
        ended = self.ending(number, PATIENCE_S)
        del self.processes[number]
        return ended

    def start(self) -> None:
        """Do nothing: a process is started when it is asked for."""

    def close(self) -> None:
        """Do nothing: whoever started a process ends it."""


@pytest.fixture
def host() -> Iterator[StandInHost]:
    """Yield a host, and see to it that every process it started was asked how it ended."""
    made = StandInHost()
    yield made
    for process in made.processes.values():
        process.kill()
        process.wait()
    assert not made.processes


@pytest.fixture
def runner(host: StandInHost) -> Iterator[ArtifactRunner]:
    with ArtifactRunner(host, spin=False) as made:
        made.settle()
        yield made


def load(runner: ArtifactRunner, *, timeout_s: float = PATIENCE_S, **plan: Any) -> None:
    runner.load(plan, CUBINS, timeout_s=timeout_s)


def batch(runner: ArtifactRunner, *sets: int, timeout_s: float = PATIENCE_S):
    runner.arm(Batch("x:1", 0, sets, 0))
    runner.armed(timeout_s)
    return runner.fire(timeout_s)


def is_gone(pid: int) -> bool:
    """Whether a process has ended; that nobody has asked how does not matter."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b") ")[2][:1] in b"ZX"
    except FileNotFoundError:
        return True


@pytest.mark.parametrize("spin", [False, True])
def test_batches_are_run_and_timed_by_both_clocks(host: StandInHost, spin: bool):
    with ArtifactRunner(host, spin=spin) as runner:
        runner.settle()
        runner.settle()
        load(runner)
        for sets in ((0,), (0, 1, 2), ()):
            began = time.monotonic_ns()
            fired = batch(runner, *sets)
            assert fired.device_ns == NS_PER_CALL * len(sets)
            assert 0 < fired.outer_ns <= time.monotonic_ns() - began
        runner.drop()
        load(runner)
        assert batch(runner, 5).device_ns == NS_PER_CALL
        assert runner.alive
        assert runner.candidates == 2


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


def said(text: str, fault: Any = "device") -> dict[str, Any]:
    return {"says": json.dumps({"fault": fault, "text": text})}


WRONG: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "a fault": (said("CUDA error 700"), KernelFault, "^CUDA error 700$"),
    "our fault": (said("KeyError: 'x'", "ours"), HarnessError, "the runner failed: KeyError: 'x'"),
    "an exit": ({"exits": 3}, WorkerDied, "the worker exited with 3; it wrote: bye"),
    "a crash": ({"signal": int(signal.SIGSEGV)}, WorkerDied, "the worker was killed by SIGSEGV"),
    "hanging up": ({"hangs up": True}, WorkerDied, "killed by SIGKILL after it closed its channel"),
    "no JSON": ({"says": "\xff{"}, WorkerDied, "answered out of turn"),
    "no object": ({"says": "[1, 2]"}, WorkerDied, "answered out of turn"),
    "a fault without a text": ({"says": '{"fault": "device"}'}, WorkerDied, "answered out of turn"),
    "another answer": ({"says": "attached"}, WorkerDied, "answered out of turn"),
}


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


def go_through(runner: ArtifactRunner, *, on: str, timeout_s: float = PATIENCE_S, **deed: Any) -> None:
    """Load, run and unload a candidate; `timeout_s` is for what comes with the event."""
    load(runner, timeout_s=timeout_s if on == "load" else PATIENCE_S, on=on, **deed)
    runner.arm(Batch("x:1", 0, (0,), 0))
    runner.armed(timeout_s if on == "batch" else PATIENCE_S)
    runner.fire(timeout_s if on == "go" else PATIENCE_S)
    runner.drop()


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


def wait_for_end(pid: int) -> None:
    handle = os.pidfd_open(pid)
    poller = select.poll()
    poller.register(handle, select.POLLIN)
    assert poller.poll(1000 * PATIENCE_S)
    os.close(handle)


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
            runner.settle()
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


def descriptors_held() -> int:
    """Return how many descriptors this process has."""
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture
def pool(host: StandInHost) -> Iterator[RunnerPool]:
    with RunnerPool(host, spin=False) as made:
        yield made


def test_the_same_runner_is_taken_until_it_has_ended(pool: RunnerPool):
    first = pool.take()
    load(first)
    assert pool.take() is first
    with pytest.raises(KernelFault):
        load(first, on="load", **said("CUDA error 700"))
    second = pool.take()
    assert second is not first
    assert second.alive
    load(second)
    assert batch(second, 0).device_ns == NS_PER_CALL


@pytest.mark.parametrize("name", WRONG)
def test_there_is_another_runner_after_whatever_went_wrong(pool: RunnerPool, name: str):
    deed, error, _ = WRONG[name]
    first = pool.take()
    with pytest.raises(error):
        go_through(first, on="go", **deed)
    load(pool.take())
    assert is_gone(first.pid)


def test_a_runner_that_died_in_its_sleep_is_not_taken(pool: RunnerPool):
    first = pool.take()
    os.kill(first.pid, signal.SIGKILL)
    wait_for_end(first.pid)
    assert pool.take().pid != first.pid


def test_a_runner_serves_so_many_candidates(pool: RunnerPool):
    first = pool.take()
    for _ in range(CANDIDATES_PER_RUNNER):
        assert pool.take() is first
        load(first)
    assert pool.take() is not first
    assert is_gone(first.pid)


def test_the_runner_in_waiting_is_the_next_one(pool: RunnerPool):
    first = pool.take()
    pool.settle()
    (waiting,) = pool.pids() - {first.pid}
    first.close()
    assert pool.take().pid == waiting
    assert len(pool.pids()) == 2
    assert not any(is_gone(pid) for pid in pool.pids())


def test_a_runner_in_waiting_that_died_is_replaced(pool: RunnerPool):
    first = pool.take()
    pool.settle()
    (waiting,) = pool.pids() - {first.pid}
    os.kill(waiting, signal.SIGKILL)
    wait_for_end(waiting)
    first.close()
    assert pool.take().alive


@pytest.mark.parametrize("deed", [{"exits": 1}, {"says": "what"}, {"signal": int(signal.SIGKILL)}])
def test_a_context_that_could_not_be_made_is_tried_once_more(host: StandInHost, deed: dict[str, Any]):
    host.scripts += [{"on": "up", **deed}]
    with RunnerPool(host, spin=False) as pool:
        assert pool.take().alive
    host.scripts += [{"on": "up", **deed}, {"on": "up", **deed}]
    with RunnerPool(host, spin=False) as pool, pytest.raises(HarnessError, match="no runner could make a context"):
        pool.take()


def test_nothing_is_left_of_a_pool(host: StandInHost):
    before = descriptors_held()
    use_up(host)
    assert not host.processes
    assert descriptors_held() == before


def use_up(host: StandInHost) -> None:
    with RunnerPool(host, spin=False) as pool:
        assert len(pool.pids()) == 1
        for plan in ({"on": "go", "exits": 1}, {"on": "load", **said("no")}, {"on": "never"}):
            with contextlib.suppress(WorkerError):
                go_through(pool.take(), **plan)
        pids = pool.pids()
        assert len(pids) == 2
        pool.close()
        pool.close()
        assert pool.pids() == set()
        assert all(is_gone(pid) for pid in pids)


def test_a_runner_stays_the_pools_when_none_can_be_started_behind_it(host: StandInHost):
    with RunnerPool(host, spin=False) as pool:
        host.exhausted = True
        with contextlib.suppress(HarnessError):
            pool.take()
        host.exhausted = False
        assert pool.take().alive
    assert not host.processes
