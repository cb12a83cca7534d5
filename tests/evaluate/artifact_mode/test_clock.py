"""The clock of artifact mode against runners that compute on host memory, honest and not: no GPU is needed for that."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from evokernel.errors import HarnessError
from evokernel.evaluate.artifact_mode.baselines import TimedCalls
from evokernel.evaluate.artifact_mode.clock import ArtifactClock, Loaded
from evokernel.evaluate.artifact_mode.output_comparison import OutputComparison
from evokernel.evaluate.artifact_mode.runner_pool import BatchTimes
from evokernel.evaluate.bench.paired_clock import CheckedCall, Rejected, confirmed
from evokernel.evaluate.bench.workload import BoundWorkload, WorkloadPurpose
from evokernel.evaluate.memory.arena import HostArena
from evokernel.evaluate.numerics.timed_inputs import FreshInputs
from evokernel.records.evaluation import Stage, Status
from evokernel.task import DISTRIBUTIONS, Role, Signature, Task, Tensor, Workload, WorkloadSet

CALLS, SETS, BLOCKS = 8, 12, 4
OVERHEAD_NS = 3e5
USUAL_NS = 2e3
WORKLOAD = Workload("small", {"N": 300})
TASK = Task(
    name="double",
    description="y = 2 x",
    reference=lambda x, **_: 2 * x,
    signature=Signature(inputs=(Tensor("x", ("N",)),), scalars=(), outputs=(Tensor("y", ("N",), role=Role.OUTPUT),)),
    workloads={"cpu": WorkloadSet(search=(WORKLOAD,), holdout=(WORKLOAD,), probe={"N": (1, 9)})},
    flops="N",
    distributions=("normal",),
)
MIXED = replace(TASK, distributions=DISTRIBUTIONS)
"""The same task with contents of checks that timed calls do not have; so some batches are odd."""


class Honest:
    """A runner whose kernel does what it should; a call takes 1 us of the device's time."""

    @property
    def overhead_ns(self):
        return OVERHEAD_NS

    def __init__(self):
        self.batches = []
        self.contents = []

    def bind(self, ground):
        self.ground = ground

    def arm(self, batch):
        self.batches.append(batch)

    def armed(self, timeout_s):
        pass

    def fire(self, timeout_s):
        order = self.batches[-1].sets
        if not order:
            return BatchTimes(1e2, 1e2 + OVERHEAD_NS)
        self.contents.append([self.ground.views(number)["x"].clone() for number in order])
        self.run(order)
        return BatchTimes(self.device_ns(len(order)), self.device_ns(len(order)) + self.overhead_ns)

    def run(self, order):
        for number in order:
            self.call(number)

    def call(self, number):
        self.ground.outputs(number)[0].copy_(2 * self.ground.views(number)["x"])

    def device_ns(self, calls):
        return 1e3 * calls


class Superbatch(Honest):
    """The first call does the work of all copies there are; the others have nothing left to do."""

    def run(self, order):
        for number in range(SETS):
            self.call(number)


class NextOnes(Honest):
    """Each call does the work of the copy after it, too."""

    def run(self, order):
        for number in order:
            self.call(number)
            self.call((number + 1) % SETS)


class Counter(Honest):
    """Works for the first calls of a batch only."""

    def run(self, order):
        for number in order[:4]:
            self.call(number)


class Hoarder(Honest):
    """Works on all copies at first, into storage of its own, and then copies what was asked for: no short batches."""

    def device_ns(self, calls):
        return 6e4 + 1e3 * calls


class Liar(Honest):
    """Reaches the events and makes them say less."""

    overhead_ns = 5e6


class Delayed(Honest):
    """Honest, beside somebody who takes the device for a while once the blocks are over: that delays what it delays."""

    delayed = range(2 * BLOCKS + 1, 2 * BLOCKS + 4)

    def device_ns(self, calls):
        return super().device_ns(calls) + 6e4 * (len(self.contents) in self.delayed)


class DelayedOutside(Honest):
    """Honest, beside somebody who takes the device while the blocks run, before and after a batch."""

    @property
    def overhead_ns(self):
        return OVERHEAD_NS + 5e6 * (len(self.contents) <= 2 * BLOCKS)


class DelayedForLong(Honest):
    """Honest, beside somebody who takes the device while it is measured again, too."""

    @property
    def overhead_ns(self):
        return OVERHEAD_NS + 5e6 * (len(self.contents) <= 4 * BLOCKS)


class LiarInOneOrder(Honest):
    """Makes the events say less where it runs before the baseline, and can be seen to do nothing of it otherwise."""

    @property
    def overhead_ns(self):
        return OVERHEAD_NS + 5e6 * (len(self.contents) % 2 == 0)


class Switched(Honest):
    """Honest, on a device that takes longer to turn to it, with or without a call, where buffers were filled before."""

    last = None

    def fire(self, timeout_s):
        content = self.ground.views(0)["x"].clone()
        filled = self.last is not None and not torch.equal(content, self.last)
        self.last = content
        fired = super().fire(timeout_s)
        return replace(fired, outer_ns=fired.outer_ns + 5e6 * filled)


class Interrupted(Honest):
    """Honest, on cores that other programs want, too: in every second block, and it shows there."""

    cost_ns = 5e6

    def fire(self, timeout_s):
        fired = super().fire(timeout_s)
        if not self.wanted:
            return fired
        return replace(fired, outer_ns=fired.outer_ns + self.cost_ns, interrupted=True)

    @property
    def wanted(self):
        return bool(self.batches[-1].sets) and (len(self.contents) - 1) // 2 % 2 == 0


class AlwaysInterrupted(Interrupted):
    """Honest, with calls so long that every batch loses its core."""

    @property
    def wanted(self):
        return bool(self.batches[-1].sets)


class HardlyInterrupted(AlwaysInterrupted):
    """Interrupted in every batch, for a moment."""

    cost_ns = 1e3


class LiarInterruptedLater(Liar):
    """Whenever batches without a call should show what is usual, others want the cores."""

    def fire(self, timeout_s):
        return replace(super().fire(timeout_s), interrupted=not self.batches[-1].sets)


class LiarInOneOrderInterruptedLater(LiarInOneOrder):
    def fire(self, timeout_s):
        return replace(super().fire(timeout_s), interrupted=not self.batches[-1].sets)


class LiarWithSlowEmptyBatches(Liar):
    """Most of the batches without a call are interrupted, and for long."""

    empty = 0

    def fire(self, timeout_s):
        fired = super().fire(timeout_s)
        if self.batches[-1].sets:
            return fired
        self.empty += 1
        wanted = self.empty % 5 != 0
        return replace(fired, outer_ns=fired.outer_ns + 1e7 * wanted, interrupted=wanted)


class LiarWhileInterrupted(Honest):
    """Hides so much in most batches that these are interrupted, as long ones are, and nothing in the others."""

    def fire(self, timeout_s):
        fired = super().fire(timeout_s)
        if not self.batches[-1].sets or len(self.contents) % 8 in (1, 2):
            return fired
        return BatchTimes(fired.device_ns / 3, fired.outer_ns + 5e7, interrupted=True)


class LiarUntilWatched(Honest):
    """Makes the events say less until a batch without calls shows that all is being confirmed, and then no more."""

    @property
    def overhead_ns(self):
        return OVERHEAD_NS + self.kept_back_ns

    @property
    def kept_back_ns(self):
        return 0.0 if any(not batch.sets for batch in self.batches) else 1e6

    def device_ns(self, calls):
        return super().device_ns(calls) / (1.0 if self.kept_back_ns == 0.0 else 3.0)


class Baseline(TimedCalls):
    """A baseline that takes 2 us a call."""

    slow = 1.0

    def __init__(self, ground):
        self.ground = ground

    def run(self):
        for number in range(self.ground.sets):
            self.ground.outputs(number)[0].copy_(2 * self.ground.views(number)["x"])

    def elapsed_ns(self):
        return self.slow * USUAL_NS * CALLS

    def run_ns(self):
        self.run()
        return self.elapsed_ns()


class Victim(Baseline):
    """A baseline that takes longer where the runner ran since its last batch; where that `lasts`, always."""

    def __init__(self, ground, runner, *, lasts=False):
        super().__init__(ground)
        self.runner, self.lasts, self.seen = runner, lasts, 0

    def run(self):
        super().run()
        self.slow = 1.5 if self.lasts or len(self.runner.batches) > self.seen else 1.0
        self.seen = len(self.runner.batches)


class CountsItsCalls(Honest):
    """Has more calls behind it than the checks make, and knows no large numbers from then on."""

    calls = 0

    def call(self, number):
        super().call(number)
        self.calls += 1
        if self.calls > CALLS:
            self.ground.outputs(number)[0].clamp_(-20, 20)


@pytest.fixture
def ground():
    yield from bound_to(TASK)


@pytest.fixture
def mixed_ground():
    yield from bound_to(MIXED)


def bound_to(task):
    def make_arena(sets):
        return HostArena.for_signature(task.signature, WORKLOAD.sizes, sets=sets)

    made = BoundWorkload(
        task, WORKLOAD, WorkloadPurpose.SEARCH, np.random.default_rng(0), make_arena=make_arena, sets=SETS
    )
    made.calls = CALLS
    yield made
    made.close()


def clock_for(ground, runner, *, busy=False, seed=1, checked_ns=1e3, anew_ns=1e3, baselines=()):
    runner.bind(ground)
    bench: Any = SimpleNamespace(
        rng=np.random.default_rng(seed),
        settings=SimpleNamespace(timeout_s=1.0),
        device=SimpleNamespace(left_running=lambda: busy, pause=lambda seconds: False),
    )
    fresh = FreshInputs(ground.task, WORKLOAD, np.random.default_rng(2))
    return ArtifactClock(
        bench,
        ground,
        fresh,
        stage=Stage.PRECISE,
        candidate=Loaded(runner, 0, CheckedCall(checked_ns, lambda: anew_ns)),
        baselines=baselines or [Baseline(ground), Baseline(ground)],
        usual_ns=USUAL_NS,
        comparison=OutputComparison(ground, rng=bench.rng),
    )


def measured(clock):
    """Measure as a judge does, up to twice more in doubt, and return the times of the candidate's calls that count."""

    def attempt():
        blocks = [clock.block() for _ in range(BLOCKS)]
        clock.finish(thoroughly=True)
        return [time for block in blocks for time in block.candidate_ns]

    return confirmed(clock, attempt)


def test_an_honest_runner_is_timed(ground):
    runner = Honest()
    clock = clock_for(ground, runner)
    block = clock.block()
    assert block.candidate_ns == (1e3, 1e3)
    assert block.baseline_ns == (2e3, 2e3)
    assert block.clock_s > 0
    clock.finish(thoroughly=True)


def test_each_batch_has_contents_an_order_and_copies_of_its_own(ground):
    runner = Honest()
    clock = clock_for(ground, runner)
    for _ in range(6):
        clock.block()
    orders = [tuple(batch.sets) for batch in runner.batches]
    assert len(set(orders)) == len(orders) == 12
    assert all(len(set(order)) == CALLS for order in orders)
    assert {number for order in orders for number in order} == set(range(SETS))
    assert len({batch.poison for batch in runner.batches}) == 12
    seen = {x.numpy().tobytes() for batch in runner.contents for x in batch}
    assert len(seen) == 12 * CALLS


@pytest.mark.parametrize("cheat", [Superbatch, NextOnes, Counter])
def test_work_for_others_or_no_work_is_found_within_a_few_blocks(ground, cheat):
    with pytest.raises(Rejected) as caught:
        measured(clock_for(ground, cheat()))
    assert caught.value.outcome.status is Status.CHEAT_SUSPECT


@pytest.mark.parametrize("seed", range(4))
def test_what_is_right_on_timed_contents_only_is_found_in_odd_batches(mixed_ground, seed):
    with pytest.raises(Rejected) as caught:
        measured(clock_for(mixed_ground, CountsItsCalls(), seed=seed))
    assert caught.value.outcome.status is Status.CHEAT_SUSPECT


def test_odd_batches_look_like_timed_ones_and_count_for_nothing(mixed_ground):
    runner = Honest()
    clock = clock_for(mixed_ground, runner)
    blocks = [clock.block() for _ in range(30)]
    clock.finish(thoroughly=True)
    odd = [sum(float(x.abs().max()) > 20 for x in batch) for batch in runner.contents]
    assert {time for block in blocks for time in block.candidate_ns} == {1e3}
    assert 1 <= sum(count > 0 for count in odd) <= len(runner.contents) - 2 * len(blocks) - 3
    assert max(odd) <= 2
    assert {len(batch.sets) for batch in runner.batches} == {CALLS, CALLS // 4, 0}


@pytest.mark.parametrize("cheat", [Hoarder, Liar, LiarInOneOrder, LiarWithSlowEmptyBatches])
def test_what_batches_do_not_show_is_found_when_they_are_confirmed(ground, cheat):
    with pytest.raises(Rejected) as caught:
        measured(clock_for(ground, cheat()))
    assert caught.value.outcome.status is Status.CHEAT_SUSPECT


def test_a_device_that_is_slow_to_turn_to_the_runner_is_not_taken_for_hidden_time(ground):
    runner = Switched()
    assert measured(clock_for(ground, runner)) == [1e3] * 2 * BLOCKS
    assert len(runner.contents) < 4 * BLOCKS, "nothing had to be measured anew"


@pytest.mark.parametrize(("kind", "attempts"), [(Delayed, 2), (DelayedOutside, 2), (DelayedForLong, 3)])
def test_who_is_delayed_for_a_while_is_not_accused(ground, kind, attempts):
    runner = kind()
    assert measured(clock_for(ground, runner)) == [1e3] * 2 * BLOCKS
    assert len(runner.contents) >= 2 * BLOCKS * attempts


def test_what_was_in_doubt_counts_for_nothing(ground):
    assert measured(clock_for(ground, LiarUntilWatched())) == [1e3] * 2 * BLOCKS


def test_a_kernel_that_was_slow_in_the_checks_only_is_timed_as_others_are(ground):
    ground.baseline_us = {"torch": 2.0}
    runner = Honest()
    assert measured(clock_for(ground, runner, checked_ns=7e7)) == [1e3] * 2 * BLOCKS
    assert [len(order) for order in runner.contents[:4]] == [1, 1, CALLS, CALLS]


def test_a_slow_kernel_gets_short_batches(ground):
    class Slow(Honest):
        def device_ns(self, calls):
            return 5e7 * calls

    ground.baseline_us = {"torch": 2.0}
    runner = Slow()
    assert measured(clock_for(ground, runner, checked_ns=7e7, anew_ns=7e7)) == [5e7] * 2 * BLOCKS
    assert {len(order) for order in runner.contents} == {1}


def test_a_kernel_whose_checks_are_slow_whenever_they_are_made_is_suspect(ground):
    ground.baseline_us = {"torch": 2.0}
    runner = Honest()
    with pytest.raises(Rejected) as caught:
        measured(clock_for(ground, runner, checked_ns=7e7, anew_ns=7e7))
    assert caught.value.outcome.status is Status.CHEAT_SUSPECT
    assert len(runner.contents) > 3 * 2 * BLOCKS, "it was not measured again"


def test_a_neighbour_is_not_the_candidates_fault(ground):
    with pytest.raises(HarnessError, match="another process"):
        measured(clock_for(ground, Honest(), busy=True))


@pytest.mark.parametrize("kind", [Interrupted, HardlyInterrupted])
def test_waiting_for_a_core_is_not_taken_for_hidden_time(ground, kind):
    runner = kind()
    assert measured(clock_for(ground, runner)) == [1e3] * 2 * BLOCKS
    assert len(runner.contents) < 4 * BLOCKS, "nothing had to be measured anew"


@pytest.mark.parametrize(
    "kind", [AlwaysInterrupted, LiarInterruptedLater, LiarInOneOrderInterruptedLater, LiarWhileInterrupted]
)
def test_where_too_much_was_interrupted_nothing_is_said_of_the_candidate(ground, kind):
    with pytest.raises(HarnessError, match="lost their cores"):
        measured(clock_for(ground, kind()))


def test_contents_of_in_out_tensors_are_written_again_between_the_two():
    tensor = Tensor("y", ("N",), role=Role.INOUT)
    task = Task(
        name="grow",
        description="y = 2 y",
        reference=lambda y, **_: 2 * y,
        signature=Signature(inputs=(tensor,), scalars=(), outputs=()),
        workloads={"cpu": WorkloadSet(search=(WORKLOAD,), holdout=(WORKLOAD,), probe={"N": (1, 9)})},
        flops="N",
    )

    def make_arena(sets):
        return HostArena.for_signature(task.signature, WORKLOAD.sizes, sets=sets)

    class Grow(Honest):
        def fire(self, timeout_s):
            for number in self.batches[-1].sets:
                self.ground.views(number)["y"].mul_(2)
            return BatchTimes(8e3, 3e5)

    class GrowAll(Baseline):
        def run(self):
            for number in range(self.ground.sets):
                self.ground.views(number)["y"].mul_(2)

    made = BoundWorkload(
        task, WORKLOAD, WorkloadPurpose.SEARCH, np.random.default_rng(0), make_arena=make_arena, sets=SETS
    )
    made.calls = CALLS
    runner: Any = Grow()
    runner.bind(made)
    bench: Any = SimpleNamespace(rng=np.random.default_rng(1), settings=SimpleNamespace(timeout_s=1.0))
    fresh = FreshInputs(task, WORKLOAD, np.random.default_rng(2))
    clock = ArtifactClock(
        bench,
        made,
        fresh,
        stage=Stage.QUICK,
        candidate=Loaded(runner, 0, CheckedCall(1e3, lambda: 1e3)),
        baselines=[GrowAll(made)],
        usual_ns=USUAL_NS,
        comparison=OutputComparison(made, rng=bench.rng),
    )
    for _ in range(2):
        clock.block()
    made.close()


@pytest.mark.parametrize(("lasts", "alone_ns"), [(False, 2e3), (True, 3e3)], ids=["beside it", "always"])
def test_where_a_baseline_is_slower_its_times_alone_count(ground, lasts, alone_ns):
    runner, blocks = Honest(), list[Any]()
    clock = clock_for(ground, runner, baselines=[Victim(ground, runner, lasts=lasts)])

    def attempt():
        blocks[:] = [clock.block() for _ in range(BLOCKS)]
        clock.finish(thoroughly=True)

    confirmed(clock, attempt)
    assert {time for block in blocks for time in block.baseline_ns} == {alone_ns}


def test_batches_are_written_the_same_way_again(ground):
    fresh = FreshInputs(TASK, WORKLOAD, np.random.default_rng(3))
    windows = fresh.draw_windows(SETS)
    fresh.fill_sets(ground.all_inputs(), windows)
    first = [ground.views(number)["x"].clone() for number in range(SETS)]
    for number, window in enumerate(windows):
        fresh.fill(ground.views(number), window)
    assert all(torch.equal(first[number], ground.views(number)["x"]) for number in range(SETS))
