"""Record of calls in memory, for tests, examples and trials without a store."""

from evokernel.records.llm import CallStatus, ModelCall, ModelCallResult, Spending, StoredCall

USABLE = (CallStatus.OK, CallStatus.TRUNCATED)


class MemoryLog:
    """Implements `CallLog`; nothing outlives the process."""

    def __init__(self) -> None:
        self._calls: list[StoredCall] = []

    @property
    def calls(self) -> tuple[StoredCall, ...]:
        """Every call, oldest first."""
        return tuple(self._calls)

    def of_step(self, step: int, ordinal: int) -> StoredCall | None:
        """Return the newest call with a usable reply that was made for a step, or None."""
        made = (stored for stored in reversed(self._calls) if _usable(stored))
        return next((each for each in made if (each.call.origin.step, each.call.ordinal) == (step, ordinal)), None)

    def find(self, key: str, sample: int) -> StoredCall | None:
        """Return a call with a usable reply by key and sample, or None."""
        made = (stored for stored in self._calls if _usable(stored))
        return next((each for each in made if (each.call.key, each.call.sample) == (key, sample)), None)

    def samples(self, key: str) -> int:
        """Return how many different samples of a key were begun."""
        return len({stored.call.sample for stored in self._calls if stored.call.key == key})

    def begin(self, call: ModelCall) -> int:
        """Record a call before it is made; return its number."""
        self._calls.append(StoredCall(len(self._calls), call, None))
        return len(self._calls) - 1

    def end(self, number: int, result: ModelCallResult) -> None:
        """Record the result of a call."""
        self._calls[number] = StoredCall(number, self._calls[number].call, result)

    def spending(self) -> Spending:
        """Return what all calls have cost; open ones count with what was reserved for them."""
        tokens, usd = 0, 0.0
        for stored in self._calls:
            usage = stored.result.usage if stored.result else None
            tokens += usage.prompt_tokens + usage.completion_tokens if usage else stored.call.reserved_tokens
            usd += usage.cost_usd if usage else stored.call.reserved_usd
        return Spending(len(self._calls), tokens, usd)


def _usable(stored: StoredCall) -> bool:
    return stored.result is not None and stored.result.status in USABLE
