"""One model of an ensemble: how it is reached, what it may be asked for, and whether it answers at present."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evokernel.config.models import ModelConfig
from evokernel.errors import ConfigError
from evokernel.llm.ledger import WorstCase
from evokernel.llm.limiter import Limiter
from evokernel.llm.transport import Price, Transport, TransportReply, prompt_bound_tokens
from evokernel.llm.waiting import Clock
from evokernel.records.candidate import Usage
from evokernel.records.llm import Message, ModelRequest

FIRST_REST_S = 15.0
LONGEST_REST_S = 600.0
_OURS = frozenset(
    {"model", "messages", "temperature", "max_tokens", "max_completion_tokens", "n", "stream", "stream_options"}
    | {"timeout", "request_timeout", "num_retries", "max_retries", "fallbacks", "api_key", "api_base", "base_url"}
    | {"mock_response", "caching", "client", "logger_fn"}
)
"""Parameters that settings of their own decide, or that would change what a call costs or who hears of it."""


@dataclass(slots=True, eq=False)
class ConfiguredModel:
    """One model with its limits, its price (None: unknown) and its health.

    `out` is why it is never asked again; empty while it may be. `own_price` says that the price was given by hand and
    counts for more than what the provider reports.
    """

    config: ModelConfig
    transport: Transport
    limiter: Limiter
    price: Price | None
    own_price: bool = False
    out: str = ""
    _rest_until_s: float = field(default=float("-inf"))
    _rests: int = 0

    def __post_init__(self) -> None:
        taken = sorted(_OURS & set(self.config.parameters))
        if taken:
            raise ConfigError(
                f"model {self.config.name!r}: parameters cannot hold {', '.join(taken)}; they are settings of "
                "the model itself, or decide what a call costs"
            )

    @classmethod
    def of(cls, config: ModelConfig, transport: Transport, *, price: Price | None, clock: Clock) -> "ConfiguredModel":
        """Return a model that has not been asked yet."""
        return cls(config, transport, Limiter(config.concurrency, clock), price, config.price is not None)

    @property
    def name(self) -> str:
        """What the model is called."""
        return self.config.name

    def rest_s(self, now_s: float) -> float:
        """Return how long the model is left alone."""
        return max(0.0, self._rest_until_s - now_s)

    def rest(self, now_s: float, *, at_least_s: float = 0.0) -> float | None:
        """Leave the model alone, twice as long as the last time, and return for how long; None where it does rest."""
        if self.rest_s(now_s) > 0:
            return None
        pause_s = max(at_least_s, min(LONGEST_REST_S, FIRST_REST_S * 2.0**self._rests))
        self._rests += 1
        self._rest_until_s = now_s + pause_s
        return pause_s

    def well(self) -> None:
        """Take note that the model answered."""
        self._rests = 0

    def parameters(self, request: ModelRequest) -> dict[str, Any]:
        """Return what is sent beside the messages. A request cannot ask for more tokens than the model's setting."""
        longest = self.config.max_tokens
        parameters: dict[str, Any] = {"max_tokens": min(request.max_tokens or longest, longest)}
        temperature = request.temperature if self.config.temperature is None else self.config.temperature
        if temperature is not None:
            parameters["temperature"] = temperature
        return {**self.config.parameters, **parameters}

    def worst(self, messages: Sequence[Message], parameters: Mapping[str, Any]) -> WorstCase:
        """Return the most that a call can take."""
        return _worst(prompt_bound_tokens(messages), parameters["max_tokens"], self.price)

    def usage(self, answer: TransportReply, messages: Sequence[Message], parameters: Mapping[str, Any]) -> Usage:
        """Return what a call has taken; what the provider does not say counts with what was reserved for it."""
        prompt = prompt_bound_tokens(messages) if answer.prompt_tokens is None else answer.prompt_tokens
        reply = parameters["max_tokens"] if answer.completion_tokens is None else answer.completion_tokens
        cost_usd = 0.0 if self.price is None else self.price.of(prompt, reply)
        if answer.cost_usd and not self.own_price:
            cost_usd = answer.cost_usd
        return Usage(answer.model or self.name, prompt, reply, cost_usd)


def _worst(prompt_tokens: int, reply_tokens: int, price: Price | None) -> WorstCase:
    return WorstCase(prompt_tokens + reply_tokens, 0.0 if price is None else price.of(prompt_tokens, reply_tokens))
