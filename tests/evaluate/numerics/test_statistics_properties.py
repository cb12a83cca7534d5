"""Scripted clocks: the interval covers the truth, equal kernels do not win, early exit is monotone."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evokernel.evaluate.numerics.statistics import CounterbalancedBlock, Estimate, StoppingRule, measure
from evokernel.records.timing import Z95, Verdict


class ScriptedClock:
    """Batches of 1 ms with independent noise, a wandering speed of the machine, and rare spikes."""

    def __init__(self, seed: int, *, truth: float, noise: float, wander: float, spikes: float) -> None:
        self._rng = random.Random(seed)
        self._truth, self._noise, self._wander, self._spikes = truth, noise, wander, spikes
        self._level = 0.0

    def block(self) -> CounterbalancedBlock:
        b1, c1, c2, b2 = self._one(), self._one() / self._truth, self._one() / self._truth, self._one()
        return CounterbalancedBlock((b1, b2), (c1, c2), (b1 + c1 + c2 + b2) / 1e9)

    def _one(self) -> float:
        self._level += self._rng.gauss(0, self._wander)
        time = 1e6 * math.exp(self._level + self._rng.gauss(0, self._noise))
        return time * self._rng.uniform(1.1, 3.0) if self._rng.random() < self._spikes else time


def measured(seed: int, plan: StoppingRule, *, truth: float, noise: float, wander: float, spikes: float) -> Estimate:
    return measure(ScriptedClock(seed, truth=truth, noise=noise, wander=wander, spikes=spikes).block, plan)


MACHINES = [(0.002, 0.0, 0.0), (0.005, 0.001, 0.0), (0.01, 0.003, 0.02), (0.03, 0.005, 0.1)]


@pytest.mark.parametrize(("noise", "wander", "spikes"), MACHINES)
@pytest.mark.parametrize("truth", [1.0, 1.7])
def test_the_interval_covers_the_truth(noise: float, wander: float, spikes: float, truth: float):
    runs, covered = 400, 0
    for seed in range(runs):
        found = measured(seed, StoppingRule(0.1), truth=truth, noise=noise, wander=wander, spikes=spikes)
        covered += abs(found.log_speedup - math.log(truth)) <= Z95 * found.log_error
    assert covered / runs >= 0.90


@pytest.mark.parametrize(("noise", "wander", "spikes"), MACHINES)
def test_equal_kernels_are_rarely_called_faster(noise: float, wander: float, spikes: float):
    runs = 400
    faster = sum(
        measured(seed, StoppingRule(0.1), truth=1.0, noise=noise, wander=wander, spikes=spikes).verdict
        is Verdict.FASTER
        for seed in range(runs)
    )
    assert faster / runs <= 0.025


@given(
    seed=st.integers(0, 10**6),
    truth=st.floats(0.05, 20.0),
    incumbent=st.floats(0.05, 40.0),
    more=st.floats(1.0, 10.0),
)
@settings(max_examples=150, deadline=None)
def test_early_exit_is_monotone_in_the_incumbent(seed: int, truth: float, incumbent: float, more: float):
    def early(best: float) -> bool:
        plan = StoppingRule(0.02, incumbent=best)
        return measured(seed, plan, truth=truth, noise=0.01, wander=0.002, spikes=0.02).stopped_early

    if early(incumbent):
        assert early(incumbent * more)
    if truth > incumbent / 1.15:
        assert not early(incumbent)


@given(seed=st.integers(0, 10**6), budget=st.floats(0.004, 0.5), noise=st.floats(0.0, 0.2))
@settings(max_examples=100, deadline=None)
def test_the_plan_is_kept(seed: int, budget: float, noise: float):
    spent: list[float] = []
    clock = ScriptedClock(seed, truth=1.0, noise=noise, wander=0.0, spikes=0.0)

    def block() -> CounterbalancedBlock:
        taken = clock.block()
        spent.append(taken.clock_s)
        return taken

    found = measure(block, StoppingRule(budget))
    assert found.pairs == 2 * len(spent) >= 4
    assert math.isfinite(found.log_error)
    assert sum(spent[:-1]) < 2 * budget or len(spent) == 2
