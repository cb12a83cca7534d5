"""One population: its archive, its selector, its operators, and how it has been doing."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from evokernel.protocols import Archive, Chooser, Selector
from evokernel.records.fitness import Elite
from islands.image import Find, IslandSnapshot
from islands.operator_choice import ByShares


@dataclass(slots=True)
class Island:
    """A population. `operators` are shares by name, `chooser` is how one is chosen for a step.

    `stale` counts its results since its best elite improved.
    """

    name: str
    operators: Mapping[str, float]
    archive: Archive
    selector: Selector
    chooser: Chooser = field(default_factory=ByShares)
    best: float = float("-inf")
    stale: int = 0
    picks: Counter[str] = field(default_factory=Counter)

    def take(self, elite: Elite) -> bool:
        """Offer an elite to the archive; say whether it became the island's best."""
        self.archive.add(elite)
        if elite.fitness.value <= self.best:
            return False
        self.best = elite.fitness.value
        self.stale = 0
        return True

    def image(self) -> IslandSnapshot:
        """Return what it holds as plain values."""
        best = None if math.isinf(self.best) else self.best
        return IslandSnapshot(tuple(elite.seq for elite in self.archive.elites()), best, self.stale, dict(self.picks))

    def restore(self, image: IslandSnapshot, *, find: Find) -> None:
        """Become what an image was taken of."""
        self.archive.clear()
        for seq in image.elites:
            self.archive.add(find(seq))
        self.best = float("-inf") if image.best is None else image.best
        self.stale = image.stale
        self.picks = Counter(image.picks)

    def restart(self, survivor: Elite) -> None:
        """Forget the population and go on from one survivor."""
        self.archive.clear()
        self.picks.clear()
        self.best = float("-inf")
        self.take(survivor)
        self.stale = 0
