"""Choosers of an island's next operator: by shares, or by gain for cost."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from evokernel.protocols import Chooser
from evokernel.records.step import OperatorRecord

EXPLORE = 0.2
"""Share of steps in which UCB draws by shares: several steps are chosen before the first has a result."""


class ByShares:
    """Order of operators drawn by the configured shares."""

    def order(
        self, shares: Mapping[str, float], records: Mapping[str, OperatorRecord], rng: np.random.Generator
    ) -> Sequence[str]:
        """Return the names as drawn, without replacement (by exponential clocks: Efraimidis and Spirakis 2006)."""
        waits = {
            name: -math.log(1.0 - drawn) / shares[name]
            for name, drawn in zip(shares, rng.random(len(shares)).tolist(), strict=True)
        }
        return sorted(waits, key=waits.__getitem__)


class ByGain:
    """Upper confidence bound on gain per dollar (UCB1, Auer et al. 2002, for a ratio of means).

    Dollars are charges of models and the price of device time. Untried operators come first. The best ratio so far
    scales the bound, so that nothing depends on the currency.
    """

    def order(
        self, shares: Mapping[str, float], records: Mapping[str, OperatorRecord], rng: np.random.Generator
    ) -> Sequence[str]:
        """Return the names, the most promising first."""
        drawn = ByShares().order(shares, records, rng)
        if rng.random() < EXPLORE:
            return drawn
        total = sum(records.get(name, OperatorRecord()).count for name in shares)
        ratios = {name: ratio(records.get(name, OperatorRecord())) for name in shares}
        scale = max(ratios.values(), default=0.0) or 1.0

        def bound(name: str) -> float:
            count = records.get(name, OperatorRecord()).count
            return math.inf if count == 0 else ratios[name] + scale * math.sqrt(math.log(total) / (2 * count))

        return sorted(drawn, key=bound, reverse=True)


def ratio(record: OperatorRecord) -> float:
    """Return the gain per dollar; 0 without gain."""
    return record.gain / record.cost_usd if record.cost_usd > 0 else 0.0


CHOOSERS: Mapping[str, type[Chooser]] = {"shares": ByShares, "ucb": ByGain}
