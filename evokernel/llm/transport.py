"""The transport of one attempt to a model: its protocol, its reply, its errors, and the most it can cost."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from evokernel.errors import ModelError
from evokernel.records.llm import CallStatus, Message, ModelRequest

LONGEST_REPLY_BYTES = 2_000_000
"""The most that is kept of a reply, in bytes; a longer one counts as truncated."""
_TOKENS_PER_MESSAGE = 16
_TOKENS_PER_PROMPT = 64


class RateLimited(ModelError):
    """The model wants fewer calls; `retry_after_s` is the wait that it asks for in s, or None."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s

    def __reduce__(self) -> tuple[type["RateLimited"], tuple[str, float | None]]:
        return (type(self), (str(self), self.retry_after_s))


class TemporaryFailure(ModelError):
    """An attempt failed for a reason that may pass.

    `billed`: the provider may charge for it; `unreachable`: no connection was made.
    """

    def __init__(self, message: str, billed: bool = False, unreachable: bool = False) -> None:
        super().__init__(message)
        self.billed, self.unreachable = billed, unreachable

    def __reduce__(self) -> tuple[type["TemporaryFailure"], tuple[str, bool, bool]]:
        return (type(self), (str(self), self.billed, self.unreachable))


class HopelessModel(ModelError):
    """This model will never answer: its key is wrong, it does not exist, or its account is empty."""


class HopelessRequest(ModelError):
    """This model will never answer this request; it may answer others. `billed`: the attempt may have cost money."""

    def __init__(self, message: str, billed: bool = False) -> None:
        super().__init__(message)
        self.billed = billed

    def __reduce__(self) -> tuple[type["HopelessRequest"], tuple[str, bool]]:
        return (type(self), (str(self), self.billed))


@dataclass(frozen=True, slots=True)
class TransportReply:
    """Reply to one attempt."""

    text: str
    """The text."""
    status: CallStatus = CallStatus.OK
    """State of the call."""
    prompt_tokens: int | None = None
    """Tokens of the prompt; None where the provider does not say."""
    completion_tokens: int | None = None
    """Tokens of the reply; None where the provider does not say."""
    cost_usd: float | None = None
    """Price in dollars; None where the provider does not say."""
    model: str = ""
    """Name of the model of a recorded reply; empty where the asked model answered."""


class Transport(Protocol):
    """Makes one attempt at one model."""

    async def send(self, request: ModelRequest, parameters: Mapping[str, Any]) -> TransportReply:
        """Return the reply of the model.

        Raises:
            RateLimited, TemporaryFailure, HopelessModel, HopelessRequest: there is no usable reply.
        """

    async def close(self) -> None:
        """Close connections."""


@dataclass(frozen=True, slots=True)
class Price:
    """The highest price of one token, in dollars."""

    prompt_usd: float
    """Of the prompt."""
    completion_usd: float
    """Of the reply."""

    def of(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Return the price of a call, in dollars."""
        return prompt_tokens * self.prompt_usd + completion_tokens * self.completion_usd


FREE = Price(0.0, 0.0)


def prompt_bound_tokens(messages: Sequence[Message]) -> int:
    """Return an upper bound on the tokens of the messages.

    No tokeniser in use makes more than one token of a byte, and a template adds a few to a message. The bound is three
    to four times the tokens of code and English. It decides only what is reserved, not what is paid.
    """
    said = sum(len(message.text.encode("utf-8", "replace")) + _TOKENS_PER_MESSAGE for message in messages)
    return said + _TOKENS_PER_PROMPT


def checked_reply(answer: TransportReply, text: str) -> TransportReply:
    """Return a reply with another text, cut to the longest that is kept, with checked numbers and status."""
    kept = text.encode("utf-8", "replace")
    status = answer.status
    if len(kept) > LONGEST_REPLY_BYTES:
        kept = kept[:LONGEST_REPLY_BYTES]
        status = CallStatus.TRUNCATED if status is CallStatus.OK else status
    if not text.strip() and status is not CallStatus.REFUSED:
        status = CallStatus.EMPTY
    return TransportReply(
        text=kept.decode("utf-8", "ignore"),
        status=status,
        prompt_tokens=_count(answer.prompt_tokens),
        completion_tokens=_count(answer.completion_tokens),
        cost_usd=_amount(answer.cost_usd),
        model=answer.model,
    )


def _count(tokens: Any) -> int | None:
    """Return a number of tokens, or None for any other value: providers send anything."""
    return tokens if isinstance(tokens, int) and not isinstance(tokens, bool) and tokens >= 0 else None


def _amount(dollars: Any) -> float | None:
    usable = isinstance(dollars, int | float) and not isinstance(dollars, bool) and math.isfinite(dollars)
    return float(dollars) if usable and dollars >= 0 else None
