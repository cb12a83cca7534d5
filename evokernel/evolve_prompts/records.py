"""Texts of a prompt, the tasks that they are tried on, and the trials."""

import math
from dataclasses import dataclass

ORIGINAL = 1
"""Number of the text that the evolution begins with."""


@dataclass(frozen=True, slots=True)
class PromptTask:
    """A stored kernel that prompts are to make faster."""

    name: str
    """Name, unique in an evolution."""
    store: str
    """Path of the store of the run that holds it; that run's config says how kernels are judged."""
    candidate: str
    """Id of the kernel."""
    held_out: bool
    """True where it takes no part before the decision."""


@dataclass(frozen=True, slots=True)
class PromptText:
    """One text of the prompt."""

    number: int
    """Number, from 1 on."""
    text: str
    """The file: front matter and body; empty where the reply gave none."""
    parent: int = 0
    """Number of the text it was made from; 0 for the original."""
    task: str = ""
    """Task whose traces the edit was made from; empty for the original."""
    idea: str = ""
    """The model's reason for the edit, in one line."""
    refusal: str = ""
    """Reason why it cannot be used; empty where it can."""


@dataclass(frozen=True, slots=True)
class PromptTrial:
    """Score of one text on one task."""

    prompt: int
    """Number of the text."""
    task: str
    """Name of the task."""
    gain: float
    """Mean over its asks of the natural logarithm of the speed-up over the task's kernel; 0 for a kernel that is wrong
    or slower, and for a reply without one."""
    right: int
    """Asks that gave a right kernel."""
    asks: int
    """Asks that were answered."""
    calls: int
    """Calls of models."""
    dollars: float
    """Their cost."""

    @property
    def speedup(self) -> float:
        """The gain as a speed-up, 1 or more."""
        return math.exp(self.gain)
