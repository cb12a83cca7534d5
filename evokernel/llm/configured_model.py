"""One model of an ensemble: its transport, its parameters, and its rests."""

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
"""Parameters with settings of their own, or that would change the cost or the receivers of a call."""


@dataclass(slots=True, eq=False)
class ConfiguredModel:
    """One model with its limits, its price and its health."""

    config: ModelConfig
    """Its settings."""
    transport: Transport
    """Carries its attempts."""
    limiter: Limiter
    """Bounds its calls at once."""
    price: Price | None
    """Price of its tokens; None where it is not known."""
    own_price: bool = False
    """The config gives the price, which then counts for more than the provider's report."""
    lost: str = ""
    """The reason that it is never asked again; empty while it may be."""
    _rest_until_s: float = field(default=float("-inf"))
    _rests: int = 0
    _fault: str = ""
    _alike: int = 0

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
        """Its name in the config."""
        return self.config.name

    def rest_s(self, now_s: float) -> float:
        """Return the rest of its pause, in s."""
        return max(0.0, self._rest_until_s - now_s)

    def rest(self, now_s: float, *, at_least_s: float = 0.0) -> float | None:
        """Begin a pause, twice as long as the last one, and return its length in s; None where one is under way."""
        if self.rest_s(now_s) > 0:
            return None
        pause_s = max(at_least_s, min(LONGEST_REST_S, FIRST_REST_S * 2.0**self._rests))
        self._rests += 1
        self._rest_until_s = now_s + pause_s
        return pause_s

    def answered(self) -> None:
        """Note that the model answered."""
        self._rests, self._fault, self._alike = 0, "", 0

    def refused(self, fault: str) -> int:
        """Note that it cannot answer a request, and return how many in a row ended with this fault."""
        self._fault, self._alike = fault, self._alike + 1 if fault == self._fault else 1
        return self._alike

    def parameters(self, request: ModelRequest) -> dict[str, Any]:
        """Return the parameters of a call. A request cannot ask for more tokens than the model's setting."""
        longest = self.config.max_tokens
        parameters: dict[str, Any] = {"max_tokens": min(request.max_tokens or longest, longest)}
        temperature = request.temperature if self.config.temperature is None else self.config.temperature
        if temperature is not None:
            parameters["temperature"] = temperature
        return {**self.config.parameters, **parameters}

    def worst_case(self, messages: Sequence[Message], parameters: Mapping[str, Any]) -> WorstCase:
        """Return the most that a call can cost."""
        prompt, reply = prompt_bound_tokens(messages), parameters["max_tokens"]
        return WorstCase(prompt + reply, self._cost_usd(prompt, reply))

    def usage(self, answer: TransportReply, messages: Sequence[Message], parameters: Mapping[str, Any]) -> Usage:
        """Return the cost of a call; a number that the provider leaves out counts with its reserve."""
        prompt = prompt_bound_tokens(messages) if answer.prompt_tokens is None else answer.prompt_tokens
        reply = parameters["max_tokens"] if answer.completion_tokens is None else answer.completion_tokens
        cost_usd = self._cost_usd(prompt, reply)
        # providers report 0 where they do not know a price; an agent that reports 0 was free
        if answer.cost_usd is not None and (answer.cost_usd or self.config.agent) and not self.own_price:
            cost_usd = answer.cost_usd
        return Usage(answer.model or self.name, prompt, reply, cost_usd)

    def _cost_usd(self, prompt: int, reply: int) -> float:
        """Return what so many tokens cost; for an agent the most that a call may cost."""
        if self.price is None:
            return self.config.agent_dollars or 0.0
        return self.price.of(prompt, reply)
