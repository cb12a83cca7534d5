"""Timed batches: both runners see the same contents, every output is verified, and nothing can be known ahead."""

import itertools
import time
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from evokernel.errors import HarnessError
from evokernel.evaluate.bench.baseline_watch import BatchUsage
from evokernel.evaluate.bench.candidate_session import warm_remark
from evokernel.evaluate.bench.paired_clock import CheckedCall, Doubtful, MeasureAgain, Rejected, confirmed
from evokernel.evaluate.bench.worker_clock import WorkerClock
from evokernel.evaluate.bench.workload import BoundWorkload, WorkloadPurpose
from evokernel.evaluate.memory.arena import HostArena
from evokernel.evaluate.numerics.timed_inputs import FreshInputs
from evokernel.evaluate.wire import PhaseVerdict
from evokernel.records.evaluation import Stage, Status
from evokernel.task import (
    PATCHWORK,
    PATCHWORK_FEW,
    Precision,
    Role,
    Scalar,
    Signature,
    Task,
    Tensor,
    Workload,
    WorkloadSet,
)

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
    ran_ns = 0
    faults = 0
    one_thread = True

    closed = False

    def __init__(self):
        self.log = []

    def close(self):
        self.closed = True

    def attach(self, name, arena, scalars):
        self.arena = arena

    def prepare(self, arena, *, first_set, calls, warm_set, timeout_s, shut=False):
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


class NoLoudNumber(Kernel):
    """Wrong where few rows have one loud number, which no sample shows."""

    def call(self, index):
        super().call(index)
        x, y = (self.arena.view(index, name) for name in ("x", "y"))
        if 1 <= (x.abs() > 8).sum() <= 8:
            y.fill_(1 / x.shape[1])


@contextmanager
def ground_of(task):
    """Give the workload of a task with its buffers."""
    (workload,) = task.workloads["cpu"].search

    def make_arena(sets):
        return HostArena.for_signature(task.signature, workload.sizes, sets=sets)

    made = BoundWorkload(task, workload, WorkloadPurpose.SEARCH, np.random.default_rng(0), make_arena=make_arena)
    made.resize(CALLS + 1)
    made.calls = CALLS
    yield made
    made.close()


@pytest.fixture
def ground():
    with ground_of(TASK) as made:
        yield made


USUAL = BatchUsage(CALLS * 100_000, faults=2)


def clock_for(
    ground, candidate, baseline, share=1.0, *, busy=(), others=0, checked_ns=1e5, anew_ns=1e5, usual=USUAL, seed=1
):
    """Make a clock.

    `busy` is what each look at the device says, `others` how many more processes it has then; a call took `checked_ns`
    in the checks, and takes `anew_ns` in those of a new process.
    """
    looks, counts = iter(busy), iter([0])
    baselines = SimpleNamespace(
        process=baseline,
        wake_ns=lambda ground: 0.0,
        usual=lambda ground: usual,
        batch_s=0.003,
        attach=lambda ground: ground.attach(baseline, set()),
    )
    device = SimpleNamespace(
        timed_share=share,
        left_running=lambda: next(looks, False),
        quiet=lambda: "",
        conditions=lambda: {"other_processes": next(counts, others)},
        pause=lambda seconds: bool(others),
    )
    bench: Any = SimpleNamespace(
        device=device,
        workers=SimpleNamespace(baselines=baselines),
        rng=np.random.default_rng(seed),
        settings=SimpleNamespace(timeout_s=1.0),
    )
    ground.attach(candidate, set())
    fresh = FreshInputs(ground.task, ground.workload, np.random.default_rng(2))
    checked = CheckedCall(checked_ns, lambda: anew_ns)
    return WorkerClock(bench, candidate, ground, fresh, stage=Stage.QUICK, checked=checked)


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


INVERSE = replace(
    TASK,
    name="inverse",
    reference=lambda x, **_: 1 / x.sum(1),
    signature=Signature(
        inputs=(Tensor("x", ("R", "C")),),
        scalars=(Scalar("R"), Scalar("C")),
        outputs=(Tensor("y", ("R",), role=Role.OUTPUT),),
    ),
)


class Inverse(Kernel):
    """Sums as torch does, or from left to right; where terms cancel, the inverses differ by far more than elsewhere."""

    def __init__(self, *, in_turn):
        super().__init__()
        self.in_turn = in_turn

    def call(self, index):
        x, y = (self.arena.view(index, name) for name in ("x", "y"))
        y.copy_(1 / (sum(x.unbind(1)) if self.in_turn else x.sum(1)))


def test_a_timed_call_is_refused_only_beyond_the_tolerance_of_its_own_inputs():
    """Beyond that of other inputs alone, one call of ten would be refused here."""
    with ground_of(INVERSE) as ground:
        clock = clock_for(ground, Inverse(in_turn=True), Inverse(in_turn=False))
        for _ in range(20):
            clock.block()


class Victim(Kernel):
    """A baseline that has page faults, or is slow, in batches before which the candidate did something."""

    def __init__(self, candidate, *, faults=0, slower=1.0, alone=False):
        super().__init__()
        self.candidate, self.more, self.slower, self.always = candidate, faults, slower, alone
        self.seen = 0

    def go(self, **how):
        hit = self.always or self.candidate.warm_ups > self.seen
        self.seen = self.candidate.warm_ups
        self.faults = self.more * hit
        return super().go(**how) * (self.slower if hit else 1.0)


class Attacker(Kernel):
    """Does something to the baseline before each batch."""

    warm_ups = 0

    def warm_up(self, index):
        self.warm_ups += 1
        super().warm_up(index)


def measured(clock):
    """Measure as a judge does; return the blocks that count."""

    def attempt():
        blocks = [clock.block() for _ in range(4)]
        clock.finish(thoroughly=False)
        return blocks

    return confirmed(clock, attempt)


@pytest.mark.parametrize("usual", [USUAL, BatchUsage(0.0)], ids=["known", "unknown"])
def test_a_baseline_that_has_page_faults_beside_a_candidate_and_not_without_it_is_doubted(ground, usual):
    candidate = Attacker()
    clock = clock_for(ground, candidate, Victim(candidate, faults=60), usual=usual)
    with pytest.raises(Doubtful, match="baseline has page faults beside this kernel") as caught:
        measured(clock)
    assert caught.value.outcome.status is Status.CHEAT_SUSPECT


@pytest.mark.parametrize("usual", [USUAL, BatchUsage(0.0)], ids=["known", "unknown"])
def test_of_a_baseline_that_is_slower_beside_a_candidate_the_times_alone_count(ground, usual):
    candidate = Attacker()
    clock = clock_for(ground, candidate, Victim(candidate, slower=1.4), usual=usual)
    blocks = measured(clock)
    assert [block.baseline_ns for block in blocks] == [(100_000, 100_000)] * 4
    assert [block.candidate_ns for block in blocks] == [(100_000, 100_000)] * 4


@pytest.mark.parametrize(
    "harm", [{"faults": 60, "alone": True}, {"slower": 3.0, "alone": True}, {"faults": 12}, {"slower": 1.1}]
)
def test_a_candidate_is_not_blamed_for_a_busy_machine_nor_for_little(ground, harm):
    candidate = Attacker()
    clock = clock_for(ground, candidate, Victim(candidate, **harm))
    measured(clock)


class Busy(Kernel):
    """A baseline on a machine that is busy for stretches of batches."""

    def __init__(self, stretch, seed):
        super().__init__()
        rng = np.random.default_rng(seed)
        self.slower = itertools.chain.from_iterable([slow] * stretch for slow in itertools.cycle(rng.uniform(1, 3, 50)))

    def go(self, **how):
        return super().go(**how) * next(self.slower)


@pytest.mark.parametrize("stretch", [1, 3, 20, 60])
@pytest.mark.parametrize("seed", range(5))
def test_a_busy_machine_is_no_reason_to_blame_a_candidate(ground, stretch, seed):
    measured(clock_for(ground, Attacker(), Busy(stretch, seed)))


def test_a_candidate_that_stops_when_it_is_doubted_loses_what_it_gained(ground):
    candidate = Attacker()
    baseline = Victim(candidate, slower=1.5)
    clock = clock_for(ground, candidate, baseline)
    forget = clock.forget

    def calmer():
        baseline.slower = 1.0
        forget()

    clock.forget = calmer
    assert [block.baseline_ns for block in measured(clock)] == [(100_000, 100_000)] * 4


@pytest.mark.parametrize("doubts", [1, 2, 3])
def test_a_first_alarm_is_no_doubt(ground, doubts):
    """A measurement that only has to be made anew takes away none of the attempts."""
    clock = clock_for(ground, Kernel(), Kernel())
    outcome = PhaseVerdict(Status.CHEAT_SUSPECT, Stage.QUICK, "")
    errors = iter([Doubtful(outcome), MeasureAgain(), *[Doubtful(outcome)] * (doubts - 1)])

    def attempt():
        for error in errors:
            raise error
        return "measured"

    if doubts < 3:
        assert confirmed(clock, attempt) == "measured"
    else:
        with pytest.raises(Doubtful):
            confirmed(clock, attempt)


@pytest.mark.parametrize(("others", "most"), [(0, 3), (1, 12)])
def test_doubts_beside_others_are_looked_into_for_longer(ground, others, most):
    attempts: list[int] = []

    def attempt():
        attempts.append(len(attempts))
        raise Doubtful(PhaseVerdict(Status.CHEAT_SUSPECT, Stage.QUICK, ""))

    with pytest.raises(Doubtful):
        confirmed(clock_for(ground, Kernel(), Kernel(), others=others), attempt)
    assert len(attempts) == most


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


@pytest.mark.parametrize("seed", range(10))
def test_each_distribution_comes_among_timed_calls_however_few_calls_a_batch_has(seed):
    few = replace(TASK, distributions=(*TASK.distributions, PATCHWORK, PATCHWORK_FEW))
    with ground_of(few) as ground:
        ground.calls = 1
        clock = clock_for(ground, NoLoudNumber(), Kernel(), seed=seed)
        with pytest.raises(Rejected):  # noqa: PT012
            clock.block()
            clock.finish(thoroughly=False)
    with ground_of(few) as ground:
        ground.calls = 1
        candidate = Kernel()
        clock = clock_for(ground, candidate, Kernel(), seed=seed)
        for _ in range(8):
            clock.block()
        odd = sum(x.abs().max() > 8 for batch in candidate.log for x in batch)
        assert odd >= 5  # a short cut that is taken in the midst of a measurement alone meets them, too


def test_where_candidate_and_baseline_differ_the_reference_decides(ground):
    clock_for(ground, Kernel(), Sloppy()).block()
    with pytest.raises(Rejected):
        clock_for(ground, Lazy(), Sloppy()).block()


def test_a_slow_candidate_gets_fewer_calls(ground):
    candidate, baseline = Slow(), Kernel()
    clock = clock_for(ground, candidate, baseline, checked_ns=30e6)
    block = clock.block()
    assert [len(batch) for batch in candidate.log] == 3 * [1]  # one of them has odd contents, and is not timed
    assert [len(batch) for batch in baseline.log] == 3 * [CALLS]
    assert block.candidate_ns == (30e6, 30e6)


def test_a_candidate_that_was_slow_in_the_checks_only_is_timed_as_others_are(ground):
    candidate, baseline = Kernel(), Kernel()
    clock = clock_for(ground, candidate, baseline, checked_ns=70e6)
    blocks = [clock.block() for _ in range(2)]
    assert [len(batch) for batch in candidate.log][:3] == 3 * [1]  # these count for nothing
    assert [len(batch) for batch in candidate.log][3:7] == 4 * [CALLS]
    assert all(block.candidate_ns == (1e5, 1e5) for block in blocks)
    clock.finish(thoroughly=False)


def test_a_candidate_whose_checks_are_slow_whenever_they_are_made_is_suspect(ground):
    clock = clock_for(ground, Kernel(), Kernel(), checked_ns=70e6, anew_ns=70e6)
    clock.block()
    with pytest.raises(Doubtful) as caught:
        clock.finish(thoroughly=False)
    assert caught.value.outcome.status is Status.CHEAT_SUSPECT


def test_a_slow_candidate_may_be_slow_in_the_checks_too(ground):
    clock = clock_for(ground, Slow(), Kernel(), checked_ns=140e6, anew_ns=140e6)
    clock.block()
    clock.finish(thoroughly=True)


class Laborious(Kernel):
    """Makes this process work, as filling a large table for a short look-up does; its calls are as short as others."""

    work_s = 0.02

    def call(self, index):
        until = time.process_time() + self.work_s
        super().call(index)
        while time.process_time() < until:
            pass


def test_work_of_the_judge_uses_up_the_budget_where_it_is_far_more_than_the_calls(ground):
    usual = clock_for(ground, Kernel(), Kernel()).block()
    block = clock_for(ground, Laborious(), Kernel()).block()
    assert block.candidate_ns == usual.candidate_ns
    assert block.clock_s >= 2 * CALLS * Laborious.work_s / 16


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


def test_a_number_is_marked_warm_where_a_batch_fits_the_cache_of_a_gpu():
    large, small = (SimpleNamespace(calls=4, set_bytes=size, label=f"{size} bytes") for size in (600, 400))
    device = SimpleNamespace(device_class="cuda")
    bench: Any = SimpleNamespace(sheet={"l2_bytes": 1000.0}, timed=(large, small), device=device)
    assert warm_remark(bench) == "warm: a batch touches less than twice the second-level cache on 400 bytes"
    bench.sheet = {}
    assert warm_remark(bench) == ""
