"""Messages, requests and replies of models, and the record of each call."""

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any, Literal

from evokernel.records.candidate import Usage

_SHARE = re.compile(r"(?P<number>\d{1,3}(?:\.\d{1,6})?)\s*(?P<percent>%)?")


@lru_cache(maxsize=4096)  # ranking strategies reads each text once for every other one
def _stated(text: str, label: str) -> str:
    lines = (line.lstrip(" \t>*_#-").partition(":") for line in text.split("\n"))
    return next((said.strip(" \t*_`") for name, _, said in lines if name.strip("*_ ").upper() == label), "")


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

    def stated(self, label: str) -> str:
        """Return what the text says behind a label at the beginning of a line, as in `RISK: 0.3`, or nothing."""
        return _stated(self.text, label)

    def stated_share(self, label: str) -> float | None:
        """Return the number from 0 to 1 behind a label, as in `RISK: 0.3` or `RISK: 30 %`; None without one."""
        match = _SHARE.match(self.stated(label))
        if match is None:
            return None
        share = float(match["number"]) / (100 if match["percent"] else 1)
        return share if share <= 1 else None

    @property
    def bottleneck(self) -> str:
        """The loss that it removes: the title of a diagnosis, what a strategy states; empty where nothing is said."""
        return self.title if self.kind is InsightKind.DIAGNOSIS else self.stated("BOTTLENECK").rstrip(".")


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

    @property
    def outcome(self) -> str:
        """What measured gains say of it: `open` before one is right, `confirmed`, `confirmed in part`, `refuted`."""
        return outcome_of(self.gains, self.insight.predicted_speedup)


KEPT_BY_CONFIRMED = 0.5
"""Share of a predicted gain that a kernel keeps where it confirms the prediction."""


def outcome_of(gains: tuple[float | None, ...], predicted_speedup: float | None) -> str:
    """Return what gains, natural logarithms, say of a predicted speed-up; None is a kernel that failed.

    A failed kernel refutes nothing: it may have been made wrongly.
    """
    measured = [gain for gain in gains if gain is not None]
    if not measured:
        return "open"
    if max(measured) <= 0:
        return "refuted"
    kept = max(measured) >= KEPT_BY_CONFIRMED * math.log(max(1.0, predicted_speedup or 1.0))
    return "confirmed" if kept else "confirmed in part"


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A bottleneck with the changes that were meant to remove it."""

    bottleneck: str
    """Its words."""
    changes: tuple[KnownInsight, ...]
    """Strategies and diagnoses about it, oldest first, with the gains of the kernels made with them."""

    @property
    def outcome(self) -> str:
        """What all gains of its changes say of it, as in `KnownInsight.outcome`."""
        gains = tuple(gain for known in self.changes for gain in known.gains)
        return outcome_of(gains, max((known.insight.predicted_speedup or 1.0 for known in self.changes), default=1.0))
