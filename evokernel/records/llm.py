"""Messages, requests and replies of models, and the record of each call."""

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
    """Purpose of a call: enough to take its step up again after a kill."""

    step: int
    """Number of the step."""
    island: str
    """The population that the step is for."""
    operator: str
    """Name of the operator."""
    parents: tuple[str, ...] = ()
    """Ids of the candidates that were selected, a broken one among them."""
    insights: tuple[int, ...] = ()
    """Seqs of the insights taken along from earlier replies."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One call to make."""

    origin: Origin
    """Its purpose."""
    ordinal: int
    """Number of the call in its step, from 0."""
    role: str
    """The role that a model needs to answer."""
    messages: tuple[Message, ...]
    """The turns, in order."""
    temperature: float | None = None
    """Sampling temperature; the config's setting for a model replaces it."""
    max_tokens: int | None = None
    """Longest reply in tokens; the model's own setting counts where it is smaller."""
    model: str = ""
    """Name of the model that is asked first; empty for one drawn by weight."""


class CallStatus(StrEnum):
    """State of a call."""

    OPEN = "open"
    """Begun and not ended; after a kill it counts with what was reserved for it."""
    OK = "ok"
    """A whole reply."""
    TRUNCATED = "truncated"
    """A reply that ran into its limit."""
    EMPTY = "empty"
    """A reply without text."""
    REFUSED = "refused"
    """The model declined."""
    FAILED = "failed"
    """No reply."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Reply of a model."""

    text: str
    """The text."""
    usage: Usage
    """Its cost; a reused reply keeps its tokens."""
    status: CallStatus = CallStatus.OK
    """State of its call."""
    reused: bool = False
    """Nothing was paid for it now."""
    model: str = ""
    """Name in the config of the model that answered; empty where it is that of the usage."""

    @property
    def truncated(self) -> bool:
        """Say whether the end is missing."""
        return self.status is CallStatus.TRUNCATED


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One attempt at a model, written down before it is made."""

    origin: Origin
    """Its purpose."""
    ordinal: int
    """Number of the call in its step, from 0."""
    role: str
    """The role that was asked."""
    model: str
    """Name of the model in the config."""
    messages: tuple[Message, ...]
    """The turns, in order."""
    parameters: Mapping[str, Any]
    """JSON values sent beside the messages (temperature, max_tokens, ...); never a key."""
    sample: int
    """Number among the calls with equal model, messages and parameters, so that sampling stays sampling."""
    reserved_tokens: int
    """The most tokens that it can take."""
    reserved_usd: float
    """The most that it can cost, in dollars."""

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
    """End of a call."""

    status: CallStatus
    """State of the call."""
    text: str
    """The reply, or the error of a failed call; never a key."""
    usage: Usage
    """Its cost."""


@dataclass(frozen=True, slots=True)
class StoredCall:
    """A call in the store."""

    number: int
    """Number of the call in its run."""
    call: ModelCall
    """The call."""
    result: ModelCallResult | None
    """Its end; None while it is open."""


@dataclass(frozen=True, slots=True)
class Spending:
    """Cost of models so far; an open call counts with what was reserved for it."""

    calls: int = 0
    """Calls begun."""
    tokens: int = 0
    """Tokens of prompts and replies."""
    cost_usd: float = 0.0
    """Price in dollars."""


class InsightKind(StrEnum):
    """Kinds of insights."""

    STRATEGY = "strategy"
    """A plan to implement."""
    DIAGNOSIS = "diagnosis"
    """A finding on a kernel."""
    LESSON = "lesson"
    """A conclusion of an island."""


@dataclass(frozen=True, slots=True)
class Insight:
    """Words of a model that later prompts use."""

    kind: InsightKind
    """Its kind."""
    title: str
    """One line."""
    text: str
    """The words."""
    candidate: str = ""
    """Id of the candidate that it is about; empty for none."""
    predicted_speedup: float | None = None
    """Speed-up over that candidate that the model expects; None where it does not say."""
    sources: tuple[int, ...] = ()
    """Seqs of the insights that it was made from."""


@dataclass(frozen=True, slots=True)
class KnownInsight:
    """An insight with its history."""

    seq: int
    """The fact that brought it in."""
    island: str
    """The island that it came on."""
    insight: Insight
    """The insight."""
    gains: tuple[float | None, ...] = field(default=())
    """For each candidate made with it the log speed-up over the first parent; None for one that failed."""
