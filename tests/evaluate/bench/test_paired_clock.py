"""Timed batches: both runners see the same contents, every output is verified, and nothing can be known ahead."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from evokernel.errors import HarnessError
from evokernel.evaluate.bench.paired_clock import Rejected, WorkerClock
from evokernel.evaluate.bench.workload import BoundWorkload, WorkloadPurpose
from evokernel.evaluate.memory.arena import HostArena
from evokernel.evaluate.numerics.timed_inputs import FreshInputs
from evokernel.records.evaluation import Stage, Status
from evokernel.task import Precision, Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet

CALLS = 5
WORKLOAD = Workload("w", {"R": 40, "C": 300})
TASK = Task(
    name="accumulate",
    reference=lambda x, s, **_: (s + x.sum(1), torch.softmax(x, 1)),
    signature=Signature(
        inputs=(Tensor("x", ("R", "C")), Tensor("s", ("R",), role=Role.INOUT)),
        scalars=(Scalar("R"), Scalar("C")),
        outputs=(Tensor("y", ("R", "C"), role=Role.OUTPUT),),
    ),
    workloads={"cpu": WorkloadSet(search=(WORKLOAD,), holdout=(WORKLOAD,), probe={"R": (1, 40), "C": (1, 300)})},
    flops="R * C",
    precision=Precision(reduction="C"),
)


class Kernel:
    """Runs in this process, on the judge's buffers; its time is what `microseconds` says."""

    microseconds = 100

    closed = False

    def __init__(self):
        self.log = []

    def close(self):
        self.closed = True

    def attach(self, name, arena, scalars):
        self.arena = arena

    def prepare(self, arena, *, first_set, calls, warm_set, timeout_s):
        self.sets = range(first_set, first_set + calls)
        self.warm_up(warm_set)

    def go(self, *, timeout_s):
        self.log.append([self.arena.view(index, "x").clone() for index in self.sets])
        for index in self.sets:
            self.call(index)
        return len(self.sets) * self.microseconds * 1000

    def abandon(self):
        pass

    def warm_up(self, index):
        if index is not None:
            self.call(index)

    def call(self, index):
        x, s, y = (self.arena.view(index, name) for name in ("x", "s", "y"))
        s.add_(x.sum(1))
        y.copy_(torch.softmax(x, 1))


class Slow(Kernel):
    microseconds = 30_000


class Timekeeper(Kernel):
    """Adds its name to a common record, at each batch that is prepared and at each that runs."""

    def __init__(self, name, record):
        super().__init__()
        self.name, self.record = name, record

    def prepare(self, *where, **how):
        self.record.append(self.name)
        super().prepare(*where, **how)

    def go(self, **how):
        self.record.append(self.name)
        return super().go(**how)


class ColdStart(Timekeeper):
    """Takes a tenth longer where it is the first of a half."""

    def go(self, **how):
        first = len(self.record) % 4 == 2  # both were prepared, and nobody ran
        return super().go(**how) * (1.1 if first else 1.0)


class Lazy(Kernel):
    """Does nothing in its last call."""

    def call(self, index):
        if index != self.sets[-1]:
            super().call(index)


class Thief(Kernel):
    """Keeps what lies in the outputs while it warms up, and uses it where it turns out to be the answer."""

    thefts = 0

    def warm_up(self, _):
        self.loot = self.arena.views("y").clone()

    def call(self, index):
        x = self.arena.view(index, "x")
        if torch.equal(self.loot[index, 0], torch.softmax(x, 1)[0]):
            self.thefts += 1
        super().call(index)


class Replay(Kernel):
    """Computes, but returns the results of its batch before."""

    def call(self, index):
        y = self.arena.view(index, "y")
        before = getattr(self, f"y{index}", None)
        super().call(index)
        setattr(self, f"y{index}", y.clone())
        if before is not None:
            y.copy_(before)


class ShortCut(Kernel):
    """Right on contents such as those of timed calls, and on no others."""

    def call(self, index):
        super().call(index)
        x, y = (self.arena.view(index, name) for name in ("x", "y"))
        y.copy_(x.exp() / x.exp().sum(1, keepdim=True))


class Counting(ShortCut):
    """Honest for so many calls, so that the first batch finds nothing."""

    honest = 2 * (CALLS + 1)  # a call to warm up and a batch, twice

    def call(self, index):
        self.honest -= 1
        (ShortCut if self.honest < 0 else Kernel).call(self, index)


class Sloppy(Kernel):
    """A baseline that is wrong."""

    def call(self, index):
        super().call(index)
        self.arena.view(index, "y").mul_(1.01)


@pytest.fixture
def ground():
    def make_arena(sets):
        return HostArena.for_signature(TASK.signature, WORKLOAD.sizes, sets=sets)

    made = BoundWorkload(TASK, WORKLOAD, WorkloadPurpose.SEARCH, np.random.default_rng(0), make_arena=make_arena)
    made.resize(CALLS + 1)
    made.calls = CALLS
    yield made
    made.close()


def clock_for(ground, candidate, baseline, share=1.0, *, busy=(), others=0):
    """Make a clock; `busy` is what each look at the device says, `others` how many more processes it has then."""
    looks, counts = iter(busy), iter([0])
    baselines = SimpleNamespace(
        process=baseline,
        wake_ns=lambda ground: 0.0,
        batch_s=0.003,
        attach=lambda ground: ground.attach(baseline, set()),
    )
    device = SimpleNamespace(
        timed_share=share,
        left_running=lambda: next(looks, False),
        quiet=lambda: "",
        conditions=lambda: {"other_processes": next(counts, others)},
    )
    bench: Any = SimpleNamespace(
        device=device,
        workers=SimpleNamespace(baselines=baselines),
        rng=np.random.default_rng(1),
        settings=SimpleNamespace(timeout_s=1.0),
    )
    ground.attach(candidate, set())
    fresh = FreshInputs(TASK, WORKLOAD, np.random.default_rng(2))
    return WorkerClock(bench, candidate, ground, fresh, stage=Stage.QUICK, call_s=1e-4)


def test_both_runners_see_the_same_contents_and_none_of_them_twice(ground):
    candidate, baseline = Kernel(), Kernel()
    clock = clock_for(ground, candidate, baseline)
    blocks = [clock.block() for _ in range(2)]
    assert len(candidate.log) == len(baseline.log) >= 4
    for mine, theirs in zip(candidate.log, baseline.log, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))
    seen = {x.numpy().tobytes() for batch in candidate.log for x in batch}
    assert len(seen) == len(candidate.log) * CALLS
    assert blocks[0].candidate_ns == blocks[0].baseline_ns == (100_000, 100_000)


def test_whoever_runs_first_is_warmed_up_last(ground):
    record: list[str] = []
    clock = clock_for(ground, Timekeeper("candidate", record), Timekeeper("baseline", record))
    for _ in range(3):
        clock.block()
    halves = [tuple(record[at : at + 4]) for at in range(0, len(record), 4)]
    ways = {("candidate", "baseline", "baseline", "candidate"), ("baseline", "candidate", "candidate", "baseline")}
    assert set(halves) == ways


def test_either_of_the_two_begins_a_block_and_its_pairs_are_told_apart(ground):
    record: list[str] = []
    clock = clock_for(ground, ColdStart("candidate", record), ColdStart("baseline", record))
    began = set()
    for _ in range(12):
        at = len(record)
        block = clock.block()
        began.add(record[at + 2])
        assert block.baseline_ns == pytest.approx((110_000, 100_000))
        assert block.candidate_ns == pytest.approx((100_000, 110_000))
    assert began == {"candidate", "baseline"}


def test_intervals_allow_for_what_two_processes_of_one_kernel_differ_by(ground):
    clock = clock_for(ground, Kernel(), Kernel())
    assert 0.001 <= clock.systematic_error() <= 0.003


@pytest.mark.parametrize("candidate", [Lazy, Replay])
@pytest.mark.parametrize("share", [1.0, 0.125])
def test_wrong_timed_outputs_are_rejected(ground, candidate, share):
    clock = clock_for(ground, candidate(), Kernel(), share)
    with pytest.raises(Rejected) as caught:
        clock.block()
    assert caught.value.outcome.status is Status.CHEAT_SUSPECT


def test_the_baselines_answers_are_gone_when_the_candidate_warms_up(ground):
    thief = Thief()
    clock = clock_for(ground, thief, Kernel())
    for _ in range(3):
        clock.block()
    assert thief.thefts == 0


def test_some_batches_look_like_timed_ones_and_have_the_contents_of_checks(ground):
    with pytest.raises(Rejected) as caught:
        clock_for(ground, ShortCut(), Kernel()).block()
    assert caught.value.outcome.status is Status.CHEAT_SUSPECT
    candidate = Kernel()
    clock = clock_for(ground, candidate, Kernel())
    for _ in range(20):
        clock.block()
    odd = [batch for batch in candidate.log if any(x.abs().max() > 10 for x in batch)]
    assert 1 < len(odd) < 20
    assert len(candidate.log) == 40 + len(odd)
    assert all(sum(bool(x.abs().max() < 10) for x in batch) > 0 for batch in odd)


def test_the_last_batch_has_contents_of_checks_too(ground):
    """A candidate that counts its calls through the first one cannot count to the end."""
    candidate = Counting()
    clock = clock_for(ground, candidate, Kernel())
    clock.block()
    assert candidate.honest < 0
    with pytest.raises(Rejected) as caught:
        clock.finish(thoroughly=False)
    assert caught.value.outcome.status is Status.CHEAT_SUSPECT
    clock_for(ground, Kernel(), Kernel()).finish(thoroughly=True)  # without a block there is nothing to look at


def test_where_candidate_and_baseline_differ_the_reference_decides(ground):
    clock_for(ground, Kernel(), Sloppy()).block()
    with pytest.raises(Rejected):
        clock_for(ground, Lazy(), Sloppy()).block()


def test_a_slow_candidate_gets_fewer_calls(ground):
    candidate, baseline = Slow(), Kernel()
    clock = clock_for(ground, candidate, baseline)
    clock._once_ns = 30e6
    block = clock.block()
    assert [len(batch) for batch in candidate.log] == 3 * [1]  # one of them has odd contents, and is not timed
    assert [len(batch) for batch in baseline.log] == 3 * [CALLS]
    assert block.candidate_ns == (30e6, 30e6)


def test_writing_out_of_bounds_is_rejected(ground):
    class Beyond(Kernel):
        def call(self, index):
            super().call(index)
            self.arena.views("y").as_strided((1,), (1,), self.arena.views("y").storage_offset() + 40 * 300).fill_(0)

    with pytest.raises(Rejected) as caught:
        clock_for(ground, Beyond(), Kernel()).block()
    assert caught.value.outcome.status is Status.OUT_OF_BOUNDS


@pytest.mark.parametrize("look", range(4))  # after warming up and after the batch, in both halves
def test_work_that_a_stopped_candidate_left_on_the_device_is_found_at_each_stop(ground, look):
    candidate = Kernel()
    clock = clock_for(ground, candidate, Kernel(), busy=[False] * look + [True])
    with pytest.raises(Rejected) as caught:
        clock.block()
    assert caught.value.outcome.status is Status.CHEAT_SUSPECT
    assert candidate.closed


def test_a_neighbour_on_the_device_is_not_the_candidates_fault(ground):
    with pytest.raises(HarnessError, match="another process"):
        clock_for(ground, Kernel(), Kernel(), busy=[True], others=1).block()
