"""What carries one attempt to a model: the seam, what comes back, the ways to fail, and the most it can cost."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from evokernel.errors import ModelError
from evokernel.records.llm import CallStatus, Message, ModelRequest

LONGEST_REPLY_BYTES = 2_000_000
"""What is kept of a reply; a longer one counts as truncated."""
_TOKENS_PER_MESSAGE = 16
_TOKENS_PER_PROMPT = 64


class RateLimited(ModelError):
    """The model wants fewer calls; `retry_after_s` is how long it asked everybody to wait, where it said so."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s

    def __reduce__(self) -> tuple[type["RateLimited"], tuple[str, float | None]]:
        return (type(self), (str(self), self.retry_after_s))


class TemporaryFailure(ModelError):
    """An attempt failed for a reason that may pass; `billed` says that the provider may ask money for it."""

    def __init__(self, message: str, billed: bool = False) -> None:
        super().__init__(message)
        self.billed = billed

    def __reduce__(self) -> tuple[type["TemporaryFailure"], tuple[str, bool]]:
        return (type(self), (str(self), self.billed))


class HopelessModel(ModelError):
    """This model will never answer: its key is wrong, it does not exist, or its account is empty."""


class HopelessRequest(ModelError):
    """This model will never answer this request; it may answer others."""


@dataclass(frozen=True, slots=True)
class TransportReply:
    """What came back from one attempt. Tokens and cost are None where the provider did not say.

    `model` is who answered, where that is not the model that was asked: a recording has it.
    """

    text: str
    status: CallStatus = CallStatus.OK
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd: float | None = None
    model: str = ""


class Transport(Protocol):
    """Makes one attempt at one model."""

    async def send(self, request: ModelRequest, parameters: Mapping[str, Any]) -> TransportReply:
        """Return what the model said.

        Raises:
            RateLimited, Passing, HopelessModel, HopelessRequest: it said nothing that can be used.
        """
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


@dataclass(frozen=True, slots=True)
class Price:
    """What one token of the prompt and one of the reply cost at most, in dollars."""

    prompt_usd: float
    completion_usd: float

    def of(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Return the price of a call, in dollars."""
        return prompt_tokens * self.prompt_usd + completion_tokens * self.completion_usd


FREE = Price(0.0, 0.0)


def prompt_bound_tokens(messages: Sequence[Message]) -> int:
    """Return more tokens than the messages can have.

    No tokeniser in use makes more than one token of a byte, and what a template adds to a message is a few; the bound
    is three to four times what code and English take. It decides only what is reserved, not what is paid.
    """
    said = sum(len(message.text.encode("utf-8", "replace")) + _TOKENS_PER_MESSAGE for message in messages)
    return said + _TOKENS_PER_PROMPT


def settled(answer: TransportReply, text: str) -> TransportReply:
    """Return the answer with a text in place of its own, cut to what is kept, and the status that the text asks for."""
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
    """Return a number of tokens, or None for what cannot be one: providers send anything."""
    return tokens if isinstance(tokens, int) and not isinstance(tokens, bool) and tokens >= 0 else None


def _amount(dollars: Any) -> float | None:
    usable = isinstance(dollars, int | float) and not isinstance(dollars, bool) and math.isfinite(dollars)
    return float(dollars) if usable and dollars >= 0 else None
