"""Which recorded calls of a candidate a profiler and the sanitizers are given, and with what in their buffers."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from evokernel.evaluate.artifact_mode.checked_build import CheckedBuild
from evokernel.evaluate.artifact_mode.plan import LaunchPlan, LaunchPlans, RecordedLaunch
from evokernel.evaluate.artifact_mode.session import ArtifactSession
from evokernel.evaluate.bench.workload import BoundWorkload, WorkloadPurpose
from evokernel.evaluate.instruments.inspection import Inspection
from evokernel.evaluate.instruments.tool_run import RecordedCall
from evokernel.evaluate.memory.arena import HostArena
from evokernel.evaluate.numerics.arrays import raw_bytes
from evokernel.records.evaluation import Timing, Verdict
from evokernel.task import Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet

SEARCH = (Workload("large", {"N": 4096}), Workload("small", {"N": 64}), Workload("slow", {"N": 256}))
HIDDEN = tuple(Workload(f"hidden{n}", {"N": n}) for n in (999, 7, 77))
HELD_OUT = Workload("held", {"N": 3})
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


def make_arena(workload: Workload, sets: int) -> HostArena:
    return HostArena.for_signature(TASK.signature, workload.sizes, sets=sets)


@pytest.fixture
def instrument() -> Instrument:
    return Instrument()


@pytest.fixture
def session(instrument: Instrument) -> Iterator[ArtifactSession]:
    kinds = [*((WorkloadPurpose.PROBE, each) for each in HIDDEN), *((WorkloadPurpose.SEARCH, each) for each in SEARCH)]
    kinds.append((WorkloadPurpose.HOLDOUT, HELD_OUT))
    rng = np.random.default_rng(0)
    grounds = tuple(BoundWorkload(TASK, each, kind, rng, make_arena=partial(make_arena, each)) for kind, each in kinds)
    plans = [plan(number) for number in range(len(kinds))]
    cubins = {str(number) * 64: b"code %d" % number for number in range(len(kinds))}
    runner = SimpleNamespace(load=lambda *_, **__: None)
    bench: Any = SimpleNamespace(
        settings=SimpleNamespace(timeout_s=1.0),
        workloads=grounds,
        probes=grounds[: len(HIDDEN)],
        task=TASK,
        device=SimpleNamespace(device_class="cuda"),
    )
    tools: Any = SimpleNamespace(
        runners=SimpleNamespace(take=lambda: runner), profiler=instrument, sanitizer=instrument
    )
    yield ArtifactSession(bench, tools, CheckedBuild(LaunchPlans("", tuple(plans)), cubins, stateful=False))
    for ground in grounds:
        ground.close()


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
