"""Settings of the prompts of one operator: how much a model is told."""

from enum import StrEnum


class FeedbackLevel(StrEnum):
    """Amount of the evaluator's words and numbers in a prompt; each level holds those before it."""

    NONE = "none"
    """Sources alone."""
    CORRECTNESS = "correctness"
    """Right or wrong, and the feedback to failures."""
    TIMES = "times"
    """Times, speed-ups and limits of the device."""
    PROFILE = "profile"
    """Facts of the compiler, counters and remarks."""

    def holds(self, other: "FeedbackLevel") -> bool:
        """Say whether this level holds another one."""
        levels = list(FeedbackLevel)
        return levels.index(self) >= levels.index(other)


class HistoryKind(StrEnum):
    """Choice of the earlier changes that a prompt tells."""

    LAST = "last"
    """The newest one, on the kernel to change where there is one."""
    BEST = "best"
    """The one that led to the fastest kernel."""
    ASCENDING = "ascending"
    """Those that led to right kernels, the slowest kernel first."""
    ALL = "all"
    """The newest first, failed ones among them."""
