"""Tree of hypotheses: bottlenecks, the changes meant to remove them, and what results say; a view of the insights."""

from collections.abc import Iterable

from evokernel.records.candidate import EVERYWHERE
from evokernel.records.llm import Hypothesis, KnownInsight


def branch(known: KnownInsight) -> str:
    """Return the name under which an insight's bottleneck is kept: case and marks do not tell two apart."""
    return " ".join("".join(c if c.isalnum() else " " for c in known.insight.bottleneck.lower()).split())


def hypotheses(insights: Iterable[KnownInsight], island: str) -> tuple[Hypothesis, ...]:
    """Return the bottlenecks that an island's insights name, those with the newest changes last."""
    found: dict[str, list[KnownInsight]] = {}
    for known in insights:
        name = branch(known)
        if name and known.island in (island, EVERYWHERE):
            found[name] = [*found.pop(name, ()), known]
    return tuple(Hypothesis(changes[0].insight.bottleneck, tuple(changes)) for changes in found.values())
