"""Candidates, and proposals with their lineage and cost."""

import hashlib
from dataclasses import dataclass, field

EVERYWHERE = "*"
"""The island of a proposal that belongs to all of them."""
MOST_AGENT_HINTS = 8
"""The newest hints of agents that are in force on an island; those of people all are."""
SEED = "seed"
"""The operator of the kernels that a search begins with."""


def normalise(text: str) -> str:
    r"""Return the text with line ends as `\n`, exactly one at the end, and lone surrogates spelled out."""
    return clean(text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n") + "\n")


def clean(text: str) -> str:
    r"""Return the text with lone surrogates, which UTF-8 cannot hold, spelled out as `\udcXX`."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


@dataclass(frozen=True, slots=True)
class Candidate:
    """One source in a language; immutable, knows nothing of its score."""

    source: str
    """The text, normalised."""
    language: str
    """Name of its language."""
    id: str = field(init=False)
    """16 hex digits over language and source."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", normalise(self.source))
        digest = hashlib.sha256(f"{self.language}\0{self.source}".encode()).hexdigest()
        object.__setattr__(self, "id", digest[:16])


@dataclass(frozen=True, slots=True)
class Usage:
    """Cost of a proposal or of a call. Rules leave the model empty and cost only seconds."""

    model: str = ""
    """Name of the model that answered, for a proposal that of the config; empty for a rule."""
    prompt_tokens: int = 0
    """Tokens of the prompt, >= 0."""
    completion_tokens: int = 0
    """Tokens of the reply, >= 0."""
    cost_usd: float = 0.0
    """Price in dollars, >= 0."""
    duration_s: float = 0.0
    """Wall-clock time in s, >= 0."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A candidate with its lineage and its cost."""

    candidate: Candidate
    """The source."""
    step: int
    """Number of its step."""
    island: str
    """The population that it is for; `*` for all."""
    operator: str
    """Name of the operator that made it."""
    asked_seq: int
    """Seq of the last fact known when it was asked for."""
    parents: tuple[str, ...] = ()
    """Ids of its parents; gains are counted over the first."""
    inspirations: tuple[str, ...] = ()
    """Ids of kernels that were shown as ideas."""
    rationale: str = ""
    """The operator's reason."""
    predicted_speedup: float | None = None
    """Speed-up over the first parent that the operator expects; None where it does not say."""
    usage: Usage = Usage()
    """Its cost."""
    insights: tuple[int, ...] = ()
    """Seqs of the insights that went into it."""
