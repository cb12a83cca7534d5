"""State of the kernel that a step works on, which decides what its prompt holds."""

from enum import StrEnum

from evokernel.records.llm import InsightKind
from evokernel.records.step import Context

PLATEAU = 3
"""Latest changes on a kernel that gained nothing, after which more of their kind is of little use."""


class ParentState(StrEnum):
    """State of the kernel to work on."""

    FAILURE = "failure"
    """A candidate failed and is to be mended."""
    PLATEAU = "plateau"
    """The latest changes gained nothing."""
    BOTTLENECK = "bottleneck"
    """A diagnosis or a profile says where its time goes."""
    UNPROFILED = "unprofiled"
    """Only its times are known."""


def parent_state(context: Context) -> ParentState:
    """Return the state of the kernel that a context is about; the first that fits, in the order above."""
    if context.broken is not None:
        return ParentState.FAILURE
    name = context.parents[0].candidate.id if context.parents else ""
    latest = [attempt.gain for attempt in context.attempts if attempt.parent == name][-PLATEAU:]
    if len(latest) == PLATEAU and all(gain is None or gain <= 0 for gain in latest):
        return ParentState.PLATEAU
    verdict = context.verdicts.get(name)
    profiled = verdict is not None and any(metric.startswith("profiled_") for metric in verdict.metrics)
    diagnosed = any(known.insight.kind is InsightKind.DIAGNOSIS for known in context.insights)
    return ParentState.BOTTLENECK if profiled or diagnosed else ParentState.UNPROFILED
