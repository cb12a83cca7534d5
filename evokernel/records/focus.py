"""Classes of transformations that a search can be limited to."""

from collections.abc import Collection
from enum import StrEnum


class Focus(StrEnum):
    """A class of transformations; its value is its name in a config."""

    TILING = "tiling"
    MEMORY = "memory"
    LOOPS = "loops"
    FUSION = "fusion"
    ARITHMETIC = "arithmetic"
    LAUNCH = "launch"

    @property
    def words(self) -> str:
        """What belongs to the class, for a model."""
        return _WORDS[self]


_WORDS = {
    Focus.TILING: "tiles and blocks (their shapes, what one program or thread keeps of a tile)",
    Focus.MEMORY: "memory traffic (what is loaded and stored, in which order, how wide, through which memory or cache)",
    Focus.LOOPS: "loops (their order, vector form, unrolling, pipelining, what is moved out of them)",
    Focus.FUSION: "fusion (passes over the same data that become one, steps that need no buffer between them)",
    Focus.ARITHMETIC: "arithmetic (cheaper forms of the same value)",
    Focus.LAUNCH: "the launch (grid, the order of programs, programs that stay, warps, stages, threads)",
}


def focus_in_words(focus: Collection[Focus]) -> tuple[str, ...]:
    """Return the line that tells a model what it may change; none without a focus."""
    if not focus:
        return ()
    return (f"Change one class of things only: {'; or '.join(each.words for each in Focus if each in focus)}",)
