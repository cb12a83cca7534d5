"""Choosers of an island's next operator, or of operator and model: by shares, or by gain for cost."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from evokernel.protocols import Chooser
from evokernel.records.step import OperatorRecord


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

    explore = 0.2
    """Share of steps that are drawn by shares: several steps are chosen before the first has a result."""

    def order(
        self, shares: Mapping[str, float], records: Mapping[str, OperatorRecord], rng: np.random.Generator
    ) -> Sequence[str]:
        """Return the names, the most promising first."""
        drawn = ByShares().order(shares, records, rng)
        if rng.random() < self.explore:
            return drawn
        total = sum(records.get(name, OperatorRecord()).count for name in shares)
        ratios = {name: ratio(records.get(name, OperatorRecord())) for name in shares}
        scale = max(ratios.values(), default=0.0) or 1.0

        def bound(name: str) -> float:
            count = records.get(name, OperatorRecord()).count
            return math.inf if count == 0 else ratios[name] + scale * math.sqrt(math.log(max(total, 1)) / (2 * count))

        return sorted(drawn, key=bound, reverse=True)


class ByPairs(ByGain):
    """Upper confidence bound on gain per dollar of each operator with each model that may answer it.

    The steps of all islands count, and older ones less: UCB with a discount (Garivier, Moulines, arXiv 0805.3415). So a
    pair that gains nothing is hardly chosen, and is tried again when its record has faded. Steps under way count as
    tries. Rules cost device time alone, and so do calls at an unknown price.
    """

    pairs = True
    """It orders pairs, named `operator/model`, where the island has models."""
    explore = 0.05


def orders_pairs(chooser: Chooser) -> bool:
    """Say whether a chooser orders pairs of operator and model; one of a user's own may have `pairs = True`, too."""
    return bool(getattr(chooser, "pairs", False))


def ratio(record: OperatorRecord) -> float:
    """Return the gain per dollar; 0 without gain."""
    return record.gain / record.cost_usd if record.cost_usd > 0 else 0.0


CHOOSERS: Mapping[str, type[Chooser]] = {"shares": ByShares, "ucb": ByGain, "pairs": ByPairs}
