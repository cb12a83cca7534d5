"""Rank of the strategies that wait for a kernel, by what measured gains kept of predicted ones."""

import math
from collections.abc import Callable, Mapping, Sequence

from evokernel.records.llm import KnownInsight
from islands.hypothesis import branch

PRIOR = 0.4
"""Weight of the belief that predictions hold, as a natural logarithm of predicted speed-up."""
ERROR = 0.5
"""Error of a gain, as a share of the predicted one, before any is measured; it weighs like a prediction of `PRIOR`."""


def predicted_gain(known: KnownInsight) -> float:
    """Return the predicted gain of a strategy less its risk, a natural logarithm; 0 where it predicts none."""
    predicted = known.insight.predicted_speedup or 0.0
    return max(0.0, math.log(predicted)) * (1 - _risk(known)) if predicted > 0 else 0.0


def _risk(known: KnownInsight) -> float:
    return known.insight.stated_share("RISK") or 0.0


def kept_share(strategies: Sequence[KnownInsight]) -> float:
    """Return the share of predicted gains that measured ones kept; 1 before any is measured.

    A kernel that failed or lost kept nothing.
    """
    uses = _uses(strategies)
    return (PRIOR + sum(gain for _, gain in uses)) / (PRIOR + sum(predicted for predicted, _ in uses))


def _believed(known: KnownInsight, strategies: Sequence[KnownInsight]) -> float:
    """Return the share of a strategy's predicted gain that is believed, by what was measured for its bottleneck.

    Strategies against other bottlenecks count as `PRIOR` of belief; without a bottleneck all count alike.
    """
    name, share = branch(known), kept_share(strategies)
    uses = _uses([other for other in strategies if name and branch(other) == name])
    return (PRIOR * share + sum(gain for _, gain in uses)) / (PRIOR + sum(predicted for predicted, _ in uses))


def ranked_plans(
    waiting: Sequence[KnownInsight], strategies: Sequence[KnownInsight], *, rule: str
) -> list[KnownInsight]:
    """Return the waiting strategies in the order of a rule of `RULES`; the newest first where they are equal.

    `strategies` are all of the island: their gains say what a prediction is worth.
    """
    return sorted(waiting, key=lambda known: (-RULES[rule](known, strategies), -known.seq))


def expected_gain(known: KnownInsight, strategies: Sequence[KnownInsight]) -> float:
    """Return the gain to be expected: the predicted one by the believed share, and what its own kernels gained."""
    own = [max(0.0, gain or 0.0) for gain in known.gains]
    return (_believed(known, strategies) * predicted_gain(known) + sum(own)) / (1 + len(own))


def _floor(known: KnownInsight, strategies: Sequence[KnownInsight]) -> float:
    """Return the expected gain less one standard error, which grows with the prediction and with the risk.

    The error is that of a ratio estimate, where measured gains count by what was predicted for them, and that of the
    draw whether the strategy works at all.
    """
    uses, share = _uses(strategies), kept_share(strategies)
    misses = (PRIOR * ERROR) ** 2 + sum((gain - share * predicted) ** 2 for predicted, gain in uses)
    weight = PRIOR**2 + sum(predicted**2 for predicted, _ in uses)
    risk, predicted = _risk(known), predicted_gain(known)
    draw = _believed(known, strategies) * predicted * math.sqrt(risk / (1 - risk)) if risk < 1 else 0.0
    error = math.hypot(math.sqrt(misses / weight) * predicted, draw) / math.sqrt(1 + len(known.gains))
    return expected_gain(known, strategies) - error


def _novelty(known: KnownInsight, strategies: Sequence[KnownInsight]) -> float:
    """Return the least share of words that differ from a strategy with measured kernels, 0 to 1 (Jaccard).

    A novelty that the strategy states lowers it; a claim cannot raise it.
    """
    words = _words(known)
    others = [_words(other) for other in strategies if other.gains and other.seq != known.seq]
    differs = min((1 - len(words & other) / max(1, len(words | other)) for other in others), default=1.0)
    stated = known.insight.stated_share("NOVELTY")
    return differs if stated is None else differs * stated


def _words(known: KnownInsight) -> set[str]:
    return set(f"{known.insight.title} {known.insight.text}".lower().split())


def _uses(strategies: Sequence[KnownInsight]) -> list[tuple[float, float]]:
    """Return the predicted and the measured gain of each kernel that was made by a strategy with a prediction."""
    return [
        (predicted, max(0.0, gain or 0.0))
        for known in strategies
        if (predicted := predicted_gain(known)) > 0
        for gain in known.gains
    ]


RULES: Mapping[str, Callable[[KnownInsight, Sequence[KnownInsight]], float]] = {
    "mean": expected_gain,
    "floor": _floor,
    "novel": _novelty,
}
"""Rules by which the next strategy is picked: highest expected gain, highest floor, most novel."""
