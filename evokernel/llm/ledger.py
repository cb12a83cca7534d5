"""Budgets of models: no call begins that could cost more than is left, and every call is written down first."""

import asyncio
import math
from dataclasses import dataclass

from evokernel.config.session_budget import RUN_LIMIT
from evokernel.errors import BudgetSpent
from evokernel.protocols import CallLog
from evokernel.records.llm import ModelCall, ModelCallResult


@dataclass(frozen=True, slots=True)
class SpendingLimits:
    """The most that all calls of a run may cost; None where there is no limit."""

    dollars: float | None = None
    tokens: int | None = None
    calls: int | None = None
    dollars_of: str = RUN_LIMIT
    """The word for the limit of dollars in a reason to stop."""


@dataclass(frozen=True, slots=True)
class WorstCase:
    """The most that one call can cost."""

    tokens: int
    usd: float


class Ledger:
    """Opens and closes calls in a log, within limits.

    The log counts an open call with what was reserved for it, also after a kill. The ledger also knows the open calls
    of this process: where only they are in the way, a call waits for them instead of ending the run early.
    """

    def __init__(self, log: CallLog, limits: SpendingLimits) -> None:
        self._log = log
        self._limits = limits
        self._open: dict[int, WorstCase] = {}
        self._waiting: list[asyncio.Future[None]] = []

    def fits(self, worst: WorstCase) -> bool:
        """Say whether a call can begin now; where not, the end of another may make room.

        Raises `BudgetSpent` if it will never fit; the message is a reason to stop.
        """
        spent, limits = self._log.spending(), self._limits
        if limits.calls is not None and spent.calls + 1 > limits.calls:
            raise BudgetSpent(f"budget of {limits.calls} call{'s' * (limits.calls != 1)} used")
        open_usd = math.fsum(each.usd for each in self._open.values())
        open_tokens = sum(each.tokens for each in self._open.values())
        if limits.dollars is not None:
            left = limits.dollars - spent.cost_usd
            if worst.usd > left + open_usd:
                raise BudgetSpent(
                    f"{limits.dollars_of} of ${limits.dollars:g} used: ${spent.cost_usd - open_usd:.2f} spent, "
                    f"the next call could cost ${worst.usd:.2f}"
                )
            if worst.usd > left:
                return False
        if limits.tokens is not None:
            left_tokens = limits.tokens - spent.tokens
            if worst.tokens > left_tokens + open_tokens:
                raise BudgetSpent(
                    f"budget of {limits.tokens} tokens used: {spent.tokens - open_tokens} spent, "
                    f"the next call could take {worst.tokens}"
                )
            if worst.tokens > left_tokens:
                return False
        return True

    def next_end(self) -> asyncio.Future[None]:
        """Return a future that is done when the next call of this process ends."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        return future

    def begin(self, call: ModelCall) -> int:
        """Write down a call before it is made and return its number."""
        number = self._log.begin(call)
        self._open[number] = WorstCase(call.reserved_tokens, call.reserved_usd)
        return number

    def end(self, number: int, result: ModelCallResult) -> None:
        """Write down the end of a call, and wake the calls that wait."""
        try:
            self._log.end(number, result)
        finally:
            self._open.pop(number, None)
            waiting, self._waiting = self._waiting, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)
