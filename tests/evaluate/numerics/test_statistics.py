import math

import pytest

from evokernel.evaluate.numerics.statistics import (
    CounterbalancedBlock,
    StoppingRule,
    estimate,
    measure,
    pool,
    t_quantile,
    verdict_of,
)
from evokernel.records.timing import Z95, Verdict


def block(speedup: float, clock_s: float = 0.01, second: float | None = None) -> CounterbalancedBlock:
    other = speedup if second is None else second
    return CounterbalancedBlock((1000.0 * speedup, 1000.0 * other), (1000.0, 1000.0), clock_s)


def test_student_quantiles_match_the_tables():
    tables = {1: 12.706, 2: 4.303, 4: 2.776, 9: 2.262, 12: 2.179, 30: 2.042, 120: 1.980}
    for freedom, value in tables.items():
        assert t_quantile(freedom) == pytest.approx(value, rel=0.002)


def test_a_drift_within_a_block_cancels():
    # times grow by 1 % with every batch: baseline first gains in one pair what it loses in the other
    drift = [1000.0 * 1.01**position for position in range(4)]
    found = estimate([CounterbalancedBlock((drift[0], drift[3]), (drift[1], drift[2]), 0.01)] * 2)
    assert found.log_speedup == pytest.approx(0.0, abs=1e-9)


def test_one_spike_in_ten_pairs_does_not_move_the_mean():
    blocks = [block(2.0)] * 4 + [block(2.0, second=20.0)]
    assert estimate(blocks).log_speedup == pytest.approx(math.log(2.0))


def test_what_the_second_of_a_pair_gains_cancels_even_beside_a_spike():
    blocks = [CounterbalancedBlock((1050.0, 1000.0), (1000.0, 1050.0), 0.01)] * 4 + [
        CounterbalancedBlock((1050.0, 1000.0), (1000.0, 9000.0), 0.01)
    ]
    found = estimate(blocks)
    assert found.log_speedup == pytest.approx(0.0, abs=1e-9)
    assert found.log_error == pytest.approx(0.0, abs=1e-9)


def test_times_are_medians_in_microseconds():
    found = estimate([block(3.0)] * 3)
    assert (found.candidate_us, found.baseline_us, found.pairs) == (1.0, 3.0, 6)


def test_few_blocks_are_widened_by_student():
    few = estimate([block(1.0), block(1.01)])
    deviation = math.log(1.01) / math.sqrt(2)
    assert few.log_error * Z95 == pytest.approx(12.706 * deviation / math.sqrt(2))


@pytest.mark.parametrize(
    ("log_speedup", "error", "verdict"),
    [
        (0.02, 0.001, Verdict.FASTER),
        (-0.02, 0.001, Verdict.SLOWER),
        (0.0, 0.001, Verdict.SAME),
        (0.004, 0.001, Verdict.AMBIGUOUS),
        (0.02, 0.01, Verdict.AMBIGUOUS),
    ],
)
def test_verdicts(log_speedup: float, error: float, verdict: Verdict):
    assert verdict_of(log_speedup, error) is verdict


def test_stops_when_narrow_and_not_before_ten_pairs():
    taken = []

    def take():
        taken.append(1)
        return block(1.5)

    found = measure(take, StoppingRule(budget_s=100.0))
    assert found.pairs == 2 * len(taken) == 10


def test_stops_when_the_budget_is_spent():
    values = iter([0.5, 2.0, 1.0] * 100)
    found = measure(lambda: block(next(values), clock_s=1.0), StoppingRule(budget_s=8.0))
    assert found.pairs == 16


def test_a_very_slow_candidate_takes_two_blocks():
    assert measure(lambda: block(0.01, clock_s=30.0), StoppingRule(budget_s=0.06)).pairs == 4


def test_the_budget_may_be_overrun_to_reach_ten_pairs_but_not_more_than_twice():
    values = iter([0.9, 1.1] * 100)
    assert measure(lambda: block(next(values), clock_s=0.3), StoppingRule(budget_s=1.0)).pairs == 10
    assert measure(lambda: block(next(values), clock_s=0.5), StoppingRule(budget_s=1.0)).pairs == 8


def test_leaves_early_when_clearly_slower_than_the_incumbent():
    hopeless = measure(lambda: block(1.0), StoppingRule(budget_s=1.0, incumbent=1.3))
    assert hopeless.stopped_early
    assert hopeless.pairs == 4
    assert not measure(lambda: block(1.0), StoppingRule(budget_s=1.0, incumbent=1.2)).stopped_early
    assert not measure(lambda: block(1.0), StoppingRule(budget_s=1.0)).stopped_early


def test_the_spread_between_processes_enters_the_error():
    mean, error = pool([0.10, 0.12, 0.14], [0.0001] * 3)
    assert mean == pytest.approx(0.12)
    assert error * Z95 == pytest.approx(4.303 * 0.02 / math.sqrt(3), rel=1e-3)
    assert pool([0.1], [0.01]) == (0.1, 0.01)
    assert pool([0.1, 0.1], [0.02, 0.02])[1] == pytest.approx(0.02 / math.sqrt(2))


def test_nothing_measured_is_an_error():
    with pytest.raises(ValueError, match="no blocks"):
        estimate([])
    with pytest.raises(ValueError, match="no measurements"):
        pool([], [])
