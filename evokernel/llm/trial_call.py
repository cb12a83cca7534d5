"""One tiny call to each model before a search, so that a wrong key or name ends it in a second."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from evokernel.config.models import ModelConfig
from evokernel.errors import ConfigError, ModelError, ModelsUnavailable
from evokernel.llm.litellm_transport import LitellmTransport, missing_keys, price_of
from evokernel.llm.transport import Price, RateLimited, TemporaryFailure, TransportReply
from evokernel.records.llm import Message, ModelRequest, Origin

_REQUEST = ModelRequest(
    origin=Origin(step=0, island="", operator="trial"),
    ordinal=0,
    role="code",
    messages=(Message("user", "Answer with one word: ready"),),
)
_PARAMETERS = {"max_tokens": 64}
_LONGEST_SAID = 300
"""Characters of an error that are shown."""
_TYPICAL_PROMPT, _TYPICAL_REPLY = 6000, 4000
"""Tokens of a prompt of ours and of its reply, for an estimate."""


@dataclass(frozen=True, slots=True)
class TrialCall:
    """Answer of one model to a tiny call."""

    config: ModelConfig
    """The model."""
    price: Price | None
    """The price of its tokens; None where it is not known."""
    duration_s: float = 0.0
    """Time to the answer, in s."""
    cost_usd: float | None = None
    """The cost of the call, in dollars; None where it is not known."""
    trouble: str = ""
    """The reason that it does not answer at present; empty where it does."""

    def __str__(self) -> str:
        """Return it in one line."""
        label = f"{self.config.name} ({self.config.model})"
        if self.trouble:
            return f"{label} does not answer at present: {self.trouble}"
        cost = "cost unknown" if self.cost_usd is None else f"${self.cost_usd:.5f}"
        return f"{label} answers, {self.duration_s:.1f} s, {cost}"

    @property
    def price_line(self) -> str:
        """Return the price in words."""
        if self.price is None:
            return "price unknown"
        prompt, reply = 1e6 * self.price.prompt_usd, 1e6 * self.price.completion_usd
        return f"${prompt:g} a million tokens of prompt, ${reply:g} of reply"

    def calls_for(self, dollars: float) -> int | None:
        """Return about how many calls a sum of money pays for; None where nobody knows, or they are free."""
        if self.price is None or not (usual := self.price.of(_TYPICAL_PROMPT, _TYPICAL_REPLY)):
            return None
        return int(dollars / usual)


async def try_models(models: Sequence[ModelConfig]) -> list[TrialCall]:
    """Ask every model one word, all at once; recordings are left out. These calls are in no store and no budget.

    Raises:
        ConfigError: a model will never answer; the message says what to set.
        ModelsUnavailable: nobody is at the address of one, which may pass.
    """
    transports = [(model, LitellmTransport(model)) for model in models if model.model]
    try:
        tried = await asyncio.gather(*(_try_model(*each) for each in transports), return_exceptions=True)
    finally:
        for _, transport in transports[:1]:
            await transport.close()  # closes the connections of all
    errors = [each for each in tried if isinstance(each, BaseException)]
    for error in sorted(errors, key=lambda each: isinstance(each, ModelsUnavailable)):  # what lasts is said first
        raise error
    return [each for each in tried if isinstance(each, TrialCall)]


async def _try_model(config: ModelConfig, transport: LitellmTransport) -> TrialCall:
    began, price = time.monotonic(), price_of(config)
    try:
        answer = await transport.send(_REQUEST, {**config.parameters, **_PARAMETERS})
    except RateLimited as error:
        wait = "" if error.retry_after_s is None else f"; it asks for a wait of {error.retry_after_s:.0f} s"
        return TrialCall(config, price, trouble=f"{_short(error)}{wait}")
    except TemporaryFailure as error:
        if _missing(config) or "credentials" in str(error):
            raise ConfigError(_hopeless(config, error)) from None
        if error.unreachable:  # by a wrong address, or a server that starts, or a network that is down
            raise ModelsUnavailable(_hopeless(config, error)) from None
        return TrialCall(config, price, trouble=_short(error))
    except ModelError as error:
        raise ConfigError(_hopeless(config, error)) from None
    return TrialCall(config, price, time.monotonic() - began, _cost(answer, price, own=config.price is not None))


def _cost(answer: TransportReply, price: Price | None, *, own: bool) -> float | None:
    if answer.cost_usd and not own:
        return answer.cost_usd
    if price is None or answer.prompt_tokens is None or answer.completion_tokens is None:
        return None
    return price.of(answer.prompt_tokens, answer.completion_tokens)


def _hopeless(config: ModelConfig, error: ModelError) -> str:
    where = f" at {config.api_base}" if config.api_base else ""
    missing = _missing(config)
    advice = f"Set {' and '.join(missing)}" if missing else "Check its key, its name and its address (--api-base)"
    return f"model {config.name!r} ({config.model}{where}) cannot be asked. {advice}. It said: {_short(error)}"


def _missing(config: ModelConfig) -> list[str]:
    """Return the variables of keys that are not set; an endpoint of one's own often wants none."""
    return [] if config.key or config.api_base else missing_keys(config.model)


def _short(error: ModelError) -> str:
    text = str(error)
    return text if len(text) <= _LONGEST_SAID else f"{text[:_LONGEST_SAID]} ..."
