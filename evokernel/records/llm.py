"""What is said to a model and by it: messages, requests, replies, and the record of each call."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from evokernel.records.candidate import Usage


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class Origin:
    """The step that a call is made for: enough to take the step up again after a kill.

    `parents` are the candidates that were selected, a broken one among them; `insights` the seqs of what was taken
    along from earlier replies.
    """

    step: int
    island: str
    operator: str
    parents: tuple[str, ...] = ()
    insights: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One call to make.

    `ordinal` numbers the calls of a step from 0; `role` decides which models may answer. The
    temperature that the config gives a model replaces `temperature`; of two `max_tokens` the smaller counts.
    """

    origin: Origin
    ordinal: int
    role: str
    messages: tuple[Message, ...]
    temperature: float | None = None
    max_tokens: int | None = None


class CallStatus(StrEnum):
    """What became of a call. One that was open when its engine was killed counts with what was reserved for it."""

    OPEN = "open"
    OK = "ok"
    TRUNCATED = "truncated"
    EMPTY = "empty"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model said. `truncated` where it ran into its limit; `reused` where nothing was paid for it now."""

    text: str
    usage: Usage
    status: CallStatus = CallStatus.OK
    reused: bool = False

    @property
    def truncated(self) -> bool:
        """Whether the end is missing."""
        return self.status is CallStatus.TRUNCATED


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One attempt at a model, as it is written down before it is made.

    `parameters` are what was sent beside the messages (temperature, max_tokens, ...): JSON values, never a key.
    `sample` numbers the calls with equal model, messages and parameters, so that sampling stays sampling.
    `reserved_tokens` and `reserved_usd` are the most it can cost.
    """

    origin: Origin
    ordinal: int
    role: str
    model: str
    messages: tuple[Message, ...]
    parameters: Mapping[str, Any]
    sample: int
    reserved_tokens: int
    reserved_usd: float

    @property
    def key(self) -> str:
        """16 hex digits over model, messages and parameters."""
        return call_key(self.model, self.messages, self.parameters)


def call_key(model: str, messages: tuple[Message, ...], parameters: Mapping[str, Any]) -> str:
    """Return the hash that says whether two calls ask the same."""
    said = [[message.role, message.text] for message in messages]
    text = json.dumps([model, said, dict(parameters)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class ModelCallResult:
    """How a call ended. `text` is the reply, or for a failed one what went wrong; neither holds a key."""

    status: CallStatus
    text: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class StoredCall:
    """A call in the store; `result` is None while it is open. `number` counts the calls of a run."""

    number: int
    call: ModelCall
    result: ModelCallResult | None


@dataclass(frozen=True, slots=True)
class Spending:
    """What models have cost so far; calls without a result count with what was reserved for them."""

    calls: int = 0
    tokens: int = 0
    cost_usd: float = 0.0


class InsightKind(StrEnum):
    """What sort of words are kept."""

    STRATEGY = "strategy"
    DIAGNOSIS = "diagnosis"
    LESSON = "lesson"


@dataclass(frozen=True, slots=True)
class Insight:
    """Words of a model that later prompts use: a strategy to implement, a diagnosis, or what an island has learned.

    `candidate` is what it is about, `sources` the seqs of the insights it was made from, `predicted_speedup` the gain
    over that candidate that was expected.
    """

    kind: InsightKind
    title: str
    text: str
    candidate: str = ""
    predicted_speedup: float | None = None
    sources: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class KnownInsight:
    """An insight with its history: on which island and at which seq it came, and the gains of what used it.

    `gains` are natural logarithms of speed-ups over the first parent, one for each candidate that was made with it;
    a candidate that failed counts with None.
    """

    seq: int
    island: str
    insight: Insight
    gains: tuple[float | None, ...] = field(default=())
