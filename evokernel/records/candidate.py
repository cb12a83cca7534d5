"""Candidates and proposals: what is tried, and where it came from."""

import hashlib
from dataclasses import dataclass, field

EVERYWHERE = "*"
"""The island of a proposal that belongs to all of them."""
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
    language: str
    id: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", normalise(self.source))
        digest = hashlib.sha256(f"{self.language}\0{self.source}".encode()).hexdigest()
        object.__setattr__(self, "id", digest[:16])


@dataclass(frozen=True, slots=True)
class Usage:
    """What making a proposal cost. Rules leave the model empty and cost only seconds."""

    model: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    duration_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Proposal:
    """A candidate with its lineage: parents, operator, island, step, the reason given, and what it cost.

    `asked_seq` is the seq of the last fact known when it was asked for; `predicted_speedup` is the gain over the
    first parent that the operator expected, where it said so; `insights` are the seqs of what it was made with.
    """

    candidate: Candidate
    step: int
    island: str
    operator: str
    asked_seq: int
    parents: tuple[str, ...] = ()
    inspirations: tuple[str, ...] = ()
    rationale: str = ""
    predicted_speedup: float | None = None
    usage: Usage = Usage()
    insights: tuple[int, ...] = ()
