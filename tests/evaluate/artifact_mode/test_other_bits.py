"""Kernels whose bits differ from run to run: which of them are accepted, and on what grounds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from evokernel.evaluate.artifact_mode.build_checks import CheckedBuild
from evokernel.evaluate.artifact_mode.parameters import Place
from evokernel.evaluate.artifact_mode.plan import Copy, LaunchPlan, LaunchPlans, RecordedLaunch, Step
from evokernel.evaluate.artifact_mode.runner_pool import Batch, BatchTimes
from evokernel.evaluate.artifact_mode.session import ArtifactSession, atomic_results
from evokernel.evaluate.bench.workload import BoundWorkload, WorkloadPurpose
from evokernel.evaluate.inside.driver.kernel_parameters import POINTER, Parameter
from evokernel.evaluate.inside.driver.nvrtc import find_nvrtc, target_of
from evokernel.evaluate.instruments.inspection import Inspection
from evokernel.evaluate.instruments.tools import SANITIZER
from evokernel.evaluate.memory.arena import HostArena
from evokernel.evaluate.wire import PhaseVerdict
from evokernel.records.evaluation import Stage, Status
from evokernel.task import Role, Signature, Task, Tensor, Workload, WorkloadSet
from tests.support.nvrtc import needs_nvrtc

SIZE = Workload("small", {"N": 300})
TASK = Task(
    name="thirds",
    reference=lambda x, **_: x / 3,
    signature=Signature(inputs=(Tensor("x", ("N",)),), scalars=(), outputs=(Tensor("y", ("N",), role=Role.OUTPUT),)),
    workloads={"cuda": WorkloadSet((SIZE,), (SIZE,), {"N": (1, 9)})},
    flops="N",
)
SOURCES = {
    "atomic": 'extern "C" __global__ void k(const float* x, float* y) { atomicAdd(y, *x); }',
    "plain": 'extern "C" __global__ void k(const float* x, float* y) { *y = *x; }',
}


def launch(kernel: str, *buffers: str, cubin: str = "a") -> RecordedLaunch:
    parameters = tuple(Parameter(POINTER, Place(name, 0)) for name in buffers)
    return RecordedLaunch(kernel, cubin, (1, 1, 1), (32, 1, 1), 1, 0, False, False, parameters)


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        ((launch("adds", "x", "y"),), {"y"}),
        ((launch("sets", "x", "y"),), set()),
        ((launch("adds", "x", "sums"), launch("sets", "sums", "y")), {"sums", "y"}),
        ((launch("sets", "sums", "y"), launch("adds", "x", "sums")), {"sums"}),
        ((launch("adds", "x", "sums"), launch("sets", "x", "y")), {"sums"}),
        ((launch("adds", "x", "sums"), Copy(Place("y", 0), Place("sums", 0), 4)), {"sums", "y"}),
        ((Copy(Place("y", 0), Place("x", 0), 4),), set()),
        ((launch("adds", "x", "y", cubin="b"),), set()),
    ],
)
def test_other_bits_come_from_atomic_operations_by_way_of_buffers(steps: Sequence[Step], found: set[str]):
    plan = LaunchPlan({"sums": 4}, tuple(steps))
    assert atomic_results(plan, {"a": {"adds"}, "b": {"other"}}, read_only={"x"}) == found


@dataclass
class Runner:
    """A runner whose kernel is right but for its last bits, which are others in each batch; `off` makes it wrong."""

    ground: BoundWorkload | None = None
    off: float = 0.0
    batches: list[Batch] = field(default_factory=list)

    def load(self, *_: Any, **__: Any) -> None:
        pass

    known = property(lambda self: {self.ground.name})

    def arm(self, batch: Batch) -> None:
        self.batches.append(batch)

    def armed(self, timeout_s: float) -> None:
        pass

    def fire(self, timeout_s: float) -> BatchTimes:
        assert self.ground is not None
        for number in self.batches[-1].sets:
            third = self.ground.views(number)["x"] / 3
            factor = 1 + (2.0**-23 + self.off) * (len(self.batches) % 2)
            self.ground.outputs(number)[0].copy_(third * factor)
        return BatchTimes(1e3, 1e4)


class Racecheck:
    """Stands where the sanitizer would, and counts the questions."""

    def __init__(self, answer: Inspection) -> None:
        self.answer, self.asked = answer, 0

    def check(self, work: Sequence[tuple[Any, Any]]) -> Inspection:
        assert [tool.name for tool, _ in work] == ["racecheck"]
        self.asked += 1
        return self.answer


@pytest.fixture
def ground() -> Iterator[BoundWorkload]:
    arena = partial(HostArena.for_signature, TASK.signature, SIZE.sizes)
    made = BoundWorkload(
        TASK,
        SIZE,
        WorkloadPurpose.SEARCH,
        np.random.default_rng(0),
        make_arena=lambda sets: arena(sets=sets),
        sets=len(TASK.distributions) + 1,
    )
    yield made
    made.close()


def session_for(ground: BoundWorkload, runner: Runner, racecheck: Racecheck, kind: str) -> ArtifactSession:
    runner.ground = ground
    image = find_nvrtc().compile(SOURCES[kind], (), target=target_of(90))
    bench: Any = SimpleNamespace(
        settings=SimpleNamespace(timeout_s=1.0),
        workloads=(ground,),
        timed=(),
        probes=(),
        shape_numbers={ground: 0},
        task=TASK,
        rng=np.random.default_rng(1),
        device=SimpleNamespace(device_class="cuda"),
    )
    tools: Any = SimpleNamespace(runners=SimpleNamespace(take=lambda: runner), sanitizer=racecheck)
    plans = LaunchPlans("", (LaunchPlan({}, (launch("k", "x", "y"),)),))
    return ArtifactSession(bench, tools, CheckedBuild(plans, {"a": image}, stateful=False))


def compared(session: ArtifactSession) -> PhaseVerdict | None:
    (ground,) = session.bench.workloads
    return session.compare(ground, ("normal", "offset", "wide"), Stage.CORRECTNESS)


@needs_nvrtc
def test_sums_in_any_order_without_a_race_are_accepted_and_marked(ground: BoundWorkload):
    racecheck = Racecheck(Inspection(complete=True))
    session = session_for(ground, Runner(), racecheck, "atomic")
    assert not session.nondeterministic
    assert [compared(session) for _ in range(2)] == [None, None]
    assert session.nondeterministic
    assert racecheck.asked == 1


@needs_nvrtc
@pytest.mark.parametrize(
    ("kind", "runner", "answer", "status", "told"),
    [
        ("plain", Runner(), Inspection(complete=True), Status.NONDETERMINISTIC, "no atomic operation explains"),
        ("atomic", Runner(), Inspection(remarks="it is not installed"), Status.NONDETERMINISTIC, SANITIZER),
        (
            "atomic",
            Runner(),
            Inspection(PhaseVerdict(Status.SANITIZER, Stage.SANITIZER, "a race"), complete=True),
            Status.SANITIZER,
            "a race",
        ),
        ("atomic", Runner(off=0.1), Inspection(complete=True), Status.NUMERICAL, "tolerance"),
    ],
    ids=["no atomics", "no tool", "a race", "beyond the tolerance"],
)
def test_other_bits_are_refused(
    ground: BoundWorkload, kind: str, runner: Runner, answer: Inspection, status: Status, told: str
):
    session = session_for(ground, runner, Racecheck(answer), kind)
    found = compared(session)
    assert found is not None
    assert found.status is status
    assert told in found.feedback
    assert not session.nondeterministic


@needs_nvrtc
def test_a_slow_kernel_has_the_time_limit_for_each_of_its_checks(ground: BoundWorkload):
    class Slow(Runner):
        def fire(self, timeout_s: float) -> BatchTimes:
            super().fire(timeout_s)
            return BatchTimes(3e8, 3e8)

    runner = Slow()
    session_for(ground, runner, Racecheck(Inspection(complete=True)), "atomic").compare(
        ground, ("normal", "offset", "wide"), Stage.CORRECTNESS
    )
    assert [len(batch.sets) for batch in runner.batches] == [1] * 4


@pytest.mark.parametrize(("slow_loads", "least_ns"), [(1, 1e3), (2, 7e7)], ids=["by chance", "by counting"])
def test_checks_are_asked_anew_of_kernels_that_are_loaded_anew(ground: BoundWorkload, slow_loads: int, least_ns: float):
    class Spinning(Runner):
        """Spins in the first calls after some of the times that it is loaded."""

        loads = calls = 0

        def load(self, *_: Any, **__: Any) -> None:
            self.loads, self.calls = self.loads + 1, 0

        def fire(self, timeout_s: float) -> BatchTimes:
            super().fire(timeout_s)
            self.calls += 1
            return BatchTimes(7e7 if self.loads <= slow_loads and self.calls <= 3 else 1e3, 1e8)

    session = session_for(ground, Spinning(), Racecheck(Inspection(complete=True)), "atomic")
    compared(session)
    clock = session._checked_call(ground)
    assert clock.ns == 7e7
    assert clock.anew() == least_ns
