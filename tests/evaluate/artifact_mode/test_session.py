"""A recorded candidate under judgement: the batches of its checks, and the calls that instruments are given."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from evokernel.evaluate.artifact_mode.build_checks import CheckedBuild
from evokernel.evaluate.artifact_mode.plan import LaunchPlan, LaunchPlans, RecordedLaunch
from evokernel.evaluate.artifact_mode.runner_pool import Batch, BatchTimes
from evokernel.evaluate.artifact_mode.session import ArtifactSession
from evokernel.evaluate.bench.workload import BoundWorkload, WorkloadPurpose
from evokernel.evaluate.instruments.inspection import Inspection
from evokernel.evaluate.instruments.tool_run import RecordedCall
from evokernel.evaluate.memory.arena import Arena, HostArena
from evokernel.evaluate.numerics.arrays import raw_bytes
from evokernel.evaluate.wire import PhaseVerdict
from evokernel.records.evaluation import Stage, Status
from evokernel.records.timing import Timing, Verdict
from evokernel.task import DISTRIBUTIONS, Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet

SEARCH = (Workload("large", {"N": 4096}), Workload("small", {"N": 64}), Workload("slow", {"N": 256}))
HIDDEN = tuple(Workload(f"hidden{n}", {"N": n}) for n in (999, 7, 77))
HELD_OUT = Workload("held", {"N": 3})
CALLS, SETS = 64, 80
TASK = Task(
    name="twice",
    reference=lambda x, **_: 2 * x,
    signature=Signature(
        inputs=(Tensor("x", ("N",)),), scalars=(Scalar("N"),), outputs=(Tensor("y", ("N",), role=Role.OUTPUT),)
    ),
    workloads={"cuda": WorkloadSet(SEARCH, (HELD_OUT,), {"N": (1, 999)})},
    flops="N",
)


def plan(number: int) -> LaunchPlan:
    """Return one of its own for each shape: its grid and its cubin tell them apart."""
    return LaunchPlan(
        {}, (RecordedLaunch("k", str(number) * 64, (number + 1, 1, 1), (32, 1, 1), 1, 0, False, False, ()),)
    )


class Instrument:
    """Stands where a profiler or a sanitizer would: remembers what it was given."""

    def __init__(self) -> None:
        self.calls: list[RecordedCall] = []
        self.tools: list[str] = []

    def profile(self, call: RecordedCall) -> Inspection:
        self.calls.append(call)
        return Inspection(remarks="profiled")

    def check(self, work: Sequence[tuple[Any, RecordedCall]]) -> Inspection:
        self.tools, self.calls = [tool.name for tool, _ in work], [call for _, call in work]
        return Inspection(complete=True)


class Checked:
    """A runner whose kernel doubles, on host memory.

    From a place of a batch on it knows no large numbers, unless it has seen one in this batch before.
    """

    def __init__(self, *, right_calls: int) -> None:
        self.known: set[str] = set()
        self.batches: list[Batch] = []
        self.right_calls = right_calls

    def load(self, *_: object, **__: object) -> None:
        return

    def attach(self, name: str, arena: Arena, scalars: object) -> None:
        self.arena = arena

    def arm(self, batch: Batch) -> None:
        self.batches.append(batch)

    def armed(self, timeout_s: float) -> None:
        return

    def fire(self, timeout_s: float) -> BatchTimes:
        careful = False
        for place, number in enumerate(self.batches[-1].sets):
            x, y = self.arena.view(number, "x"), self.arena.view(number, "y")
            y.copy_(2 * x)
            if place >= self.right_calls and not careful:
                y.clamp_(-20, 20)
            careful |= bool(x.abs().max() > 20)
        return BatchTimes(1e3 * len(self.batches[-1].sets), 1e6)


def make_arena(workload: Workload, sets: int) -> HostArena:
    return HostArena.for_signature(TASK.signature, workload.sizes, sets=sets)


@pytest.fixture
def instrument() -> Instrument:
    return Instrument()


@pytest.fixture
def session(instrument: Instrument) -> Iterator[ArtifactSession]:
    yield from opened(Checked(right_calls=1), instrument)


def opened(runner: Checked, instrument: Instrument) -> Iterator[ArtifactSession]:
    kinds = [*((WorkloadPurpose.PROBE, each) for each in HIDDEN), *((WorkloadPurpose.SEARCH, each) for each in SEARCH)]
    kinds.append((WorkloadPurpose.HOLDOUT, HELD_OUT))
    rng = np.random.default_rng(0)
    grounds = tuple(
        BoundWorkload(TASK, each, kind, rng, make_arena=partial(make_arena, each), sets=SETS) for kind, each in kinds
    )
    plans = [plan(number) for number in range(len(kinds))]
    cubins = {str(number) * 64: b"code %d" % number for number in range(len(kinds))}
    bench: Any = SimpleNamespace(
        settings=SimpleNamespace(timeout_s=1.0),
        workloads=grounds,
        probes=grounds[: len(HIDDEN)],
        timed=grounds[len(HIDDEN) :],
        shape_numbers={
            ground: number
            for number, ground in enumerate(sorted(grounds, key=lambda each: each.kind is not WorkloadPurpose.SEARCH))
        },
        task=TASK,
        device=SimpleNamespace(device_class="cuda"),
        rng=rng,
    )
    tools: Any = SimpleNamespace(
        runners=SimpleNamespace(take=lambda: runner), profiler=instrument, sanitizer=instrument
    )
    yield ArtifactSession(bench, tools, CheckedBuild(LaunchPlans("", tuple(plans)), cubins, stateful=False))
    for ground in grounds:
        ground.close()


def test_a_workload_with_one_copy_gets_one_call(instrument: Instrument) -> None:
    runner = Checked(right_calls=1)
    (session,) = opened(runner, instrument)
    bound = BoundWorkload(
        TASK, HIDDEN[1], WorkloadPurpose.PROBE, session.bench.rng, make_arena=partial(make_arena, HIDDEN[1]), sets=1
    )
    session._shapes[bound] = 0
    assert session.compare(bound, ("normal",), Stage.CORRECTNESS) is None
    assert [batch.sets for batch in runner.batches] == [[0]]
    assert session.called_s == 1e-3
    bound.close()


def compared(session: ArtifactSession, name: str, *, calls: int = 1) -> PhaseVerdict | None:
    """Check it on one workload whose timed batches have so many calls."""
    (bound,) = (each for each in session.bench.workloads if each.workload.name == name)
    bound.calls = calls
    return session.compare(bound, DISTRIBUTIONS, Stage.CORRECTNESS)


@pytest.mark.parametrize(("name", "due"), [("small", CALLS), ("held", CALLS), ("hidden77", len(DISTRIBUTIONS))])
def test_checks_on_timed_workloads_look_like_timed_batches(instrument: Instrument, name: str, due: int) -> None:
    runner = Checked(right_calls=SETS)
    for session in opened(runner, instrument):
        assert compared(session, name, calls=CALLS) is None
        (alone,), order = (batch.sets for batch in runner.batches)
        assert (alone, len(order), len(set(order))) == (0, due, due)
        assert (list(order) == sorted(order)) == (name == "hidden77")


def test_what_is_right_in_the_first_calls_of_a_batch_only_is_found_in_the_checks(instrument: Instrument) -> None:
    for session in opened(Checked(right_calls=CALLS // 2), instrument):
        tries = [compared(session, "small", calls=CALLS) for _ in range(20)]
        found = {verdict.status for verdict in tries if verdict is not None}
        assert found == {Status.NUMERICAL}
        assert sum(verdict is not None for verdict in tries) > 4, "it is found once in two tries"


def timings(**times_us: float) -> list[Timing]:
    return [Timing(name, "torch", 1.0, us, 1.0, 0.0, 0.1, 10, Verdict.SAME) for name, us in times_us.items()]


def test_the_search_workload_with_most_to_gain_is_profiled(session: ArtifactSession, instrument: Instrument) -> None:
    assert session.profile(timings(large=10.0, small=1.0, slow=50.0)).remarks == "profiled"
    (call,) = instrument.calls
    assert (call.label, call.hidden) == ("slow", False)
    assert call.plan == plan(2).as_message()
    assert call.cubins == {"2" * 64: b"code 2"}  # and none of another shape
    x, y = call.buffers
    (ground,) = (each for each in session.bench.workloads if each.workload.name == "slow")
    assert (x.name, x.size_bytes, x.content) == ("x", 1024, raw_bytes(ground.case("normal").inputs["x"]))
    assert (y.name, y.size_bytes, y.content) == ("y", 1024, None)


def test_to_gain_is_what_is_left_to_the_limit_by_weight_and_not_the_time(
    session: ArtifactSession, instrument: Instrument
) -> None:
    large, small, slow = timings(large=100.0, small=10.0, slow=50.0)
    near, far = replace(large, floor_us=95.0), replace(small, floor_us=5.0)
    session.profile([near, far])
    session.profile([near, far, replace(slow, floor_us=30.0, weight=2.0)])
    assert [call.label for call in instrument.calls] == ["small", "slow"]


def test_nothing_but_search_workloads_is_ever_profiled(session: ArtifactSession, instrument: Instrument) -> None:
    session.profile(timings(held=1e6, hidden999=1e6, large=1.0))
    session.profile([])
    assert [call.label for call in instrument.calls] == ["large", "large"]


def test_sanitizers_get_the_smallest_workload_and_small_hidden_ones(
    session: ArtifactSession, instrument: Instrument
) -> None:
    assert session.sanitize().complete
    assert instrument.tools == ["memcheck", "memcheck", "memcheck", "racecheck", "racecheck"]
    assert [call.buffers[0].size_bytes // 4 for call in instrument.calls] == [64, 7, 77, 64, 7]
    assert [call.hidden for call in instrument.calls] == [False, True, True, False, True]
    assert {call.label for call in instrument.calls if call.hidden} == {"a hidden shape"}
    assert [call.plan for call in instrument.calls[:3]] == [plan(number).as_message() for number in (1, 4, 5)]
