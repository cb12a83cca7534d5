"""Paired timing statistics and the stopping rule of a measurement. Pure: no clock, no process."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from evokernel.records.timing import Z95, Verdict

SAME = math.log(1.005)
"""Speeds within 0.5 % are the same."""
TRIM = 0.2
EARLY_PAIRS = 3
_EARLY = math.log(1.25)
"""A candidate that is slower than the incumbent by more than this in every pair is not measured further."""
_T975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306)


@dataclass(frozen=True, slots=True)
class CounterbalancedBlock:
    """Two pairs, one with the baseline first and one with the candidate first, in either order: ABBA or BAAB."""

    baseline_ns: tuple[float, float]
    """Times of one call; the pair with the baseline first comes first."""
    candidate_ns: tuple[float, float]
    """Times of one call, in the same order of pairs."""
    clock_s: float
    """Clock time of the whole block."""

    @property
    def logs(self) -> tuple[float, float]:
        """The log ratios baseline / candidate of both pairs, the one with the baseline first before the other."""
        first = math.log(self.baseline_ns[0] / self.candidate_ns[0])
        return first, math.log(self.baseline_ns[1] / self.candidate_ns[1])


@dataclass(frozen=True, slots=True)
class StoppingRule:
    """The end of a measurement."""

    budget_s: float
    """Most clock time, in s."""
    half_width: float = 0.005
    """Stop at an interval of the log speed-up narrower than ± this."""
    least_pairs: int = 10
    """Pairs that are measured in any case."""
    incumbent: float = 0.0
    """Stop clearly below this speed-up after `EARLY_PAIRS`; 0 for none."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimate of a speed-up: `log_speedup` ± 1.96 `log_error` is a 95 % interval."""

    log_speedup: float
    """Natural logarithm of baseline time over candidate time."""
    log_error: float
    """Its standard error."""
    pairs: int
    """Number of pairs."""
    candidate_us: float
    """Median time of one call."""
    baseline_us: float
    """Median time of one call."""
    stopped_early: bool = False
    """Clearly slower than the incumbent, so the budget was not used."""

    @property
    def verdict(self) -> Verdict:
        """The comparison of the candidate with the baseline."""
        return verdict_of(self.log_speedup, self.log_error)


def t_quantile(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's distribution; within 0.2 % of the tables."""
    if freedom <= len(_T975):
        return _T975[max(freedom, 1) - 1]
    z = 1.959964
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def verdict_of(log_speedup: float, log_error: float) -> Verdict:
    """Return the verdict of the 95 % interval; AMBIGUOUS where it crosses a border of ±0.5 %."""
    low, high = log_speedup - Z95 * log_error, log_speedup + Z95 * log_error
    if low > SAME:
        return Verdict.FASTER
    if high < -SAME:
        return Verdict.SLOWER
    if low >= -SAME and high <= SAME:
        return Verdict.SAME
    return Verdict.AMBIGUOUS


def estimate(blocks: Sequence[CounterbalancedBlock], *, stopped_early: bool = False) -> Estimate:
    """Return the 20 %-trimmed mean over pairs; its error is taken over blocks, since neighbours correlate.

    The first of a pair may be slower by several percent. So pairs are trimmed among those of the same order, and the
    means of both orders have the same weight. The error is that of a trimmed mean (winsorised values, Tukey and
    McLaughlin 1963) with blocks as clusters, widened by Student's quantile. Raises `ValueError` for no blocks.
    """
    if not blocks:
        raise ValueError("no blocks to estimate from")
    orders = tuple(zip(*(block.logs for block in blocks), strict=True))
    cut = int(TRIM * len(blocks))
    kept = [sorted(logs)[cut : len(blocks) - cut] for logs in orders]
    winsorised = [
        [min(max(value, within[0]), within[-1]) for value in logs] for logs, within in zip(orders, kept, strict=True)
    ]
    return Estimate(
        log_speedup=fmean(map(fmean, kept)),
        log_error=_block_error([fmean(pair) for pair in zip(*winsorised, strict=True)], kept=len(kept[0])),
        pairs=2 * len(blocks),
        candidate_us=_median([time for block in blocks for time in block.candidate_ns]) / 1e3,
        baseline_us=_median([time for block in blocks for time in block.baseline_ns]) / 1e3,
        stopped_early=stopped_early,
    )


def pool(logs: Sequence[float], errors: Sequence[float]) -> tuple[float, float]:
    """Return mean and standard error of measurements of one quantity in several processes.

    Differences between processes count: the error is the larger of those from their own errors and from their spread.
    Raises `ValueError` for no measurements.
    """
    if not logs:
        raise ValueError("no measurements to pool")
    count, mean = len(logs), fmean(logs)
    within = math.sqrt(sum(error**2 for error in errors)) / count
    if count == 1:
        return mean, within
    spread = math.sqrt(sum((value - mean) ** 2 for value in logs) / (count - 1) / count)
    return mean, max(within, spread * t_quantile(count - 1) / Z95)


def measure(pair_source: Callable[[], CounterbalancedBlock], plan: StoppingRule) -> Estimate:
    """Take blocks until the rule is fulfilled, and at least two, so that there is an error."""
    blocks: list[CounterbalancedBlock] = []
    spent = 0.0
    while True:
        block = pair_source()
        blocks.append(block)
        spent += block.clock_s
        if len(blocks) < 2:
            continue
        if _hopeless(blocks, plan):
            return estimate(blocks, stopped_early=True)
        if _is_spent(blocks, spent, plan) or _is_narrow(blocks, plan):
            return estimate(blocks)


def _hopeless(blocks: Sequence[CounterbalancedBlock], plan: StoppingRule) -> bool:
    """Say whether every pair so far is clearly slower than the incumbent."""
    if plan.incumbent <= 0 or 2 * len(blocks) < EARLY_PAIRS:
        return False
    limit = math.log(plan.incumbent) - _EARLY
    return all(value < limit for block in blocks for value in block.logs)


def _is_spent(blocks: Sequence[CounterbalancedBlock], spent_s: float, plan: StoppingRule) -> bool:
    """Say whether the budget is used up; reaching the least number of pairs may take up to twice the budget."""
    if 2 * len(blocks) < plan.least_pairs:
        return spent_s >= 2 * plan.budget_s
    return spent_s >= plan.budget_s


def _is_narrow(blocks: Sequence[CounterbalancedBlock], plan: StoppingRule) -> bool:
    count = len(blocks)
    if 2 * count < plan.least_pairs or not _is_look(count):
        return False
    # Stopping at the first narrow interval favours lucky spreads (Chow and Robbins 1965): few looks, and a margin
    # that vanishes with the count, keep the coverage at 92 to 96 % in simulations.
    return Z95 * estimate(blocks).log_error * (1 + 4 / count) < plan.half_width


def _is_look(count: int) -> bool:
    """Say whether the interval is tested after `count` blocks: 5, 6, 7, 8, 10, 12, 15, 18, 22, ..."""
    look = 5
    while look < count:
        look += max(1, look // 5)
    return look == count


def _block_error(means: Sequence[float], *, kept: int) -> float:
    """Return the standard error from the means of winsorised blocks, `kept` of which were not trimmed."""
    count = len(means)
    if count < 2:
        return math.inf
    middle = fmean(means)
    variance = sum((value - middle) ** 2 for value in means) / (count - 1)
    return math.sqrt(variance * count) / kept * t_quantile(max(1, kept - 1)) / Z95


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
