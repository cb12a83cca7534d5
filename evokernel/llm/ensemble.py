"""An ensemble of models behind one method: who is asked, what is reused, what is waited for, what is written down."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from evokernel.errors import BudgetSpent, ModelError, ModelsUnavailable
from evokernel.llm.configured_model import ConfiguredModel
from evokernel.llm.ledger import Ledger, SpendingLimits, WorstCase
from evokernel.llm.limiter import Ticket, TooLong
from evokernel.llm.redact import Redactor
from evokernel.llm.transport import (
    HopelessModel,
    HopelessRequest,
    RateLimited,
    TemporaryFailure,
    TransportReply,
    settled,
)
from evokernel.llm.waiting import CallStop, Clock, SystemClock
from evokernel.protocols import CallLog
from evokernel.records.candidate import Usage
from evokernel.records.llm import CallStatus, ModelCall, ModelCallResult, ModelRequest, Reply, StoredCall
from evokernel.rng import stream

FIRST_BACKOFF_S = 1.0
LONGEST_BACKOFF_S = 60.0
LONGEST_ERROR_CHARACTERS = 600


class EarlierReplies(Protocol):
    """The calls of another run, read only."""

    def find(self, key: str, sample: int) -> StoredCall | None:
        """Return a call with a usable reply by what was asked, or None."""
        ...


@dataclass(frozen=True, slots=True)
class EnsembleSettings:
    """What an ensemble keeps to.

    `islands` names the models that each island may ask; none, or no entry, for all. `patience_s` is the longest that
    one request waits for models that do not answer at present, in s.
    """

    seed: int = 0
    limits: SpendingLimits = field(default_factory=SpendingLimits)
    islands: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    patience_s: float = 300.0


class _TakeOver(Exception):
    """This model cannot answer now; another one may. Never leaves this file."""


class _Inquiry:
    """A request on its way: who may still answer it, and which sample of each model it is."""

    def __init__(self, request: ModelRequest, rules: EnsembleSettings) -> None:
        self.request = request
        self.rng = stream(rules.seed, request.origin.step, f"model {request.ordinal}")
        self.seats: list[ConfiguredModel] = []
        self.samples: dict[str, int] = {}
        self.refusals: list[str] = []
        self.too_dear: BudgetSpent | None = None
        self._give_up_s: float | None = None
        self._patience_s = rules.patience_s

    def patience_left_s(self, now_s: float) -> float:
        """Return how much longer to wait; time counts from the first trouble."""
        if self._give_up_s is None:
            self._give_up_s = now_s + self._patience_s
        return self._give_up_s - now_s


class ModelEnsemble:
    """Several models behind budgets, limits and the record of calls. Implements `LanguageModel`.

    A request is drawn a model by weight, the same one however often a run is repeated. What was answered for its step
    before is given again and costs nothing, nor does what an earlier run was told when it asked the same; such a
    reply keeps its tokens, so a budget of tokens counts it, and a replay ends where its original did. Every attempt is
    a call of its own in the log, and all attempts of a request at one model are the same sample.

    A provider is believed not to charge for an attempt that it answered with an error, or that never reached it. One
    that ran out of time or broke off, and a reply without usage, count with all that was reserved. Spending can pass a
    budget only where a provider reports more tokens than it was allowed.
    """

    def __init__(
        self,
        seats: Sequence[ConfiguredModel],
        *,
        log: CallLog,
        rules: EnsembleSettings | None = None,
        older: Sequence[EarlierReplies] = (),
        redactor: Redactor | None = None,
        notify: Callable[[str], None] = lambda text: None,
        clock: Clock | None = None,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        self._seats = tuple(seats)
        self._log = log
        self._rules = rules or EnsembleSettings()
        self._older = tuple(older)
        self._redactor = redactor or Redactor(())
        self._notify = notify
        self._clock = clock or SystemClock()
        self._ledger = Ledger(log, self._rules.limits)
        self._stop = CallStop()
        self._on_close = on_close

    async def complete(self, request: ModelRequest) -> Reply:
        """Return a reply, an earlier one where the same was asked for this step before.

        Raises:
            BudgetSpent: the call could cost more than is left.
            ModelsUnavailable: no model that may answer does, at present or (`final`) ever again.
            ModelError: every model that may answer says that this request cannot be answered.
        """
        stored = self._log.of_step(request.origin.step, request.ordinal)
        if stored is not None and stored.result is not None and stored.call.origin == request.origin:
            return _again(stored.result, stored.result.usage)
        inquiry = _Inquiry(replace(request, messages=self._redactor.messages(request.messages)), self._rules)
        inquiry.seats = self._candidates(inquiry)
        while True:
            seat = await self._next(inquiry)
            try:
                return await self._ask(seat, inquiry)
            except _TakeOver:
                continue

    def stop_new_calls(self) -> None:
        """Begin no further attempt: whoever waits for one hears `ModelsUnavailable`; what is under way goes on."""
        self._stop.stop_new_calls()
        for seat in self._seats:
            seat.limiter.send_away(ModelsUnavailable("the search is ending: no call is begun any more"))

    async def close(self) -> None:
        """Let go of connections."""
        self.stop_new_calls()
        for seat in self._seats:
            seat.limiter.close()
            await seat.transport.close()
        self._on_close()

    def _candidates(self, inquiry: _Inquiry) -> list[ConfiguredModel]:
        """Return who may answer, in an order drawn by weight."""
        request = inquiry.request
        named = self._rules.islands.get(request.origin.island, ())
        able = [seat for seat in self._seats if request.role in seat.config.roles and (not named or seat.name in named)]
        if not able:
            where = f" among the models of island {request.origin.island!r}" if named else ""
            raise ModelsUnavailable(f"no model has the role {request.role!r}{where}", final=True)
        total = sum(seat.config.weight for seat in able)
        shares = [seat.config.weight / total for seat in able]
        return [able[index] for index in inquiry.rng.choice(len(able), size=len(able), replace=False, p=shares)]

    async def _next(self, inquiry: _Inquiry) -> ConfiguredModel:
        """Return the first who can be asked; where all are resting, wait for one."""
        while True:
            self._stop.check()
            able = [seat for seat in inquiry.seats if not seat.out]
            if not able:
                raise inquiry.too_dear or _nobody(inquiry)
            now_s = self._clock.now_s()
            rests = [seat.rest_s(now_s) for seat in able]
            shortest_s = min(rests)
            if shortest_s == 0:
                return able[rests.index(0.0)]
            if shortest_s > inquiry.patience_left_s(now_s):
                names = ", ".join(seat.name for seat in able)
                raise ModelsUnavailable(
                    f"no model answers at present ({names}); the first one rests {shortest_s:.0f} s"
                )
            await self._stop.unless(self._clock.sleep_s(shortest_s))

    async def _ask(self, seat: ConfiguredModel, inquiry: _Inquiry) -> Reply:
        """Return a reply of one model after as many attempts as it takes and it is allowed."""
        failed = 0
        while True:
            try:
                return await self._attempt(seat, inquiry)
            except BudgetSpent as error:
                inquiry.too_dear = error  # another model may be cheaper
                inquiry.seats.remove(seat)
                raise _TakeOver from None
            except HopelessRequest as error:
                inquiry.refusals.append(f"{seat.name}: {error}")
                inquiry.seats.remove(seat)
                raise _TakeOver from None
            except (HopelessModel, TooLong, RateLimited, TemporaryFailure) as error:
                failed += isinstance(error, TemporaryFailure)
                self._judge(seat, inquiry, error=error, failed=failed)
                passing = isinstance(error, TemporaryFailure)
            if self._silent(seat):
                raise _TakeOver
            if passing:
                await self._back_off(failed, inquiry)

    def _judge(self, seat: ConfiguredModel, inquiry: _Inquiry, *, error: ModelError, failed: int) -> None:
        """Decide whether a model is to be asked again, now or ever, after an attempt that gave nothing."""
        left_s = inquiry.patience_left_s(self._clock.now_s())
        if isinstance(error, HopelessModel):
            self._out(seat, str(error))
        elif isinstance(error, TooLong) and not self._silent(seat):
            self._rest(seat, "it asked for a long pause", at_least_s=seat.limiter.pause_s())
        elif isinstance(error, RateLimited) and left_s <= 0:
            self._rest(seat, str(error))
        elif failed > seat.config.retries:
            self._rest(seat, f"failed {failed} times in a row, last with: {error}")

    def _silent(self, seat: ConfiguredModel) -> bool:
        return bool(seat.out) or seat.rest_s(self._clock.now_s()) > 0

    async def _attempt(self, seat: ConfiguredModel, inquiry: _Inquiry) -> Reply:
        self._stop.check()
        call = self._call(seat, inquiry)
        if (known := self._known(call, inquiry)) is not None:
            return known
        async with seat.limiter.turn() as ticket:
            worst = WorstCase(call.reserved_tokens, call.reserved_usd)
            while not self._ledger.fits(worst):
                await self._stop.unless(self._ledger.next_end())
            self._stop.check()
            if self._silent(seat):
                raise _TakeOver  # found out by others while this one waited
            call = self._call(seat, inquiry)  # others may have begun the same: it is another sample now
            if (known := self._known(call, inquiry)) is not None:
                return known
            number = self._ledger.begin(call)
            inquiry.samples[seat.name] = call.sample
            return await self._send(seat, inquiry, number=number, call=call, ticket=ticket)

    async def _send(
        self, seat: ConfiguredModel, inquiry: _Inquiry, *, number: int, call: ModelCall, ticket: Ticket
    ) -> Reply:
        began_s = self._clock.now_s()

        def close(status: CallStatus, text: str, usage: Usage) -> Usage:
            usage = replace(usage, duration_s=self._clock.now_s() - began_s)
            self._ledger.end(number, ModelCallResult(status, text, usage))
            return usage

        try:
            answer = await seat.transport.send(inquiry.request, call.parameters)
        except BaseException as error:
            billed = error.billed if isinstance(error, TemporaryFailure) else not isinstance(error, ModelError)
            text = "given up" if isinstance(error, asyncio.CancelledError) else self._shown(error)
            taken = seat.usage(TransportReply(""), call.messages, call.parameters) if billed else Usage(seat.name)
            close(CallStatus.FAILED, text, taken)
            if isinstance(error, RateLimited):
                jitter = float(inquiry.rng.random())
                seat.limiter.refused(ticket, retry_after_s=error.retry_after_s, jitter=jitter)
            if isinstance(error, ModelError):
                error.args = (text,)
            raise
        answer = settled(answer, self._redactor.text(answer.text))
        usage = close(answer.status, answer.text, seat.usage(answer, call.messages, call.parameters))
        seat.well()
        seat.limiter.succeeded()
        return Reply(answer.text, usage, answer.status)

    def _call(self, seat: ConfiguredModel, inquiry: _Inquiry) -> ModelCall:
        request = inquiry.request
        parameters: dict[str, Any] = self._redactor.value(seat.parameters(request))
        worst = seat.worst(request.messages, parameters)
        call = ModelCall(
            origin=request.origin,
            ordinal=request.ordinal,
            role=request.role,
            model=seat.name,
            messages=request.messages,
            parameters=parameters,
            sample=0,
            reserved_tokens=worst.tokens,
            reserved_usd=worst.usd,
        )
        sample = inquiry.samples.get(seat.name)
        return replace(call, sample=self._log.samples(call.key) if sample is None else sample)

    def _known(self, call: ModelCall, inquiry: _Inquiry) -> Reply | None:
        """Return what an earlier run was told, written down as a call of this run that cost nothing, or None."""
        if call.model in inquiry.samples:
            return None  # looked for before the first attempt
        found = next((each for log in self._older if (each := log.find(call.key, call.sample)) is not None), None)
        if found is None or found.result is None:
            return None
        usage = replace(found.result.usage, cost_usd=0.0, duration_s=0.0)
        tokens = usage.prompt_tokens + usage.completion_tokens
        if not self._ledger.fits(WorstCase(tokens, 0.0)):
            return None  # asked for anew once others have ended
        number = self._ledger.begin(replace(call, reserved_tokens=tokens, reserved_usd=0.0))
        self._ledger.end(number, ModelCallResult(found.result.status, found.result.text, usage))
        return _again(found.result, usage)

    async def _back_off(self, failed: int, inquiry: _Inquiry) -> None:
        pause_s = min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** (failed - 1)) * (0.5 + float(inquiry.rng.random()))
        await self._stop.unless(self._clock.sleep_s(pause_s))

    def _out(self, seat: ConfiguredModel, reason: str) -> None:
        if not seat.out:
            seat.out = reason
            self._notify(f"model {seat.name} is not asked any more: {reason}")
            seat.limiter.send_away(TooLong("will never answer"))

    def _rest(self, seat: ConfiguredModel, reason: str, *, at_least_s: float = 0.0) -> None:
        rest_s = seat.rest(self._clock.now_s(), at_least_s=at_least_s)
        if rest_s is not None:
            self._notify(f"model {seat.name} is left alone for {rest_s:.0f} s: {reason}")
            seat.limiter.send_away(TooLong("rests"))

    def _shown(self, error: BaseException) -> str:
        text = self._redactor.text(f"{error}" or type(error).__name__)
        return text if len(text) <= LONGEST_ERROR_CHARACTERS else text[:LONGEST_ERROR_CHARACTERS] + " ..."


def _again(result: ModelCallResult, usage: Usage) -> Reply:
    return Reply(result.text, usage, result.status, reused=True)


def _nobody(inquiry: _Inquiry) -> ModelError:
    """Return what to say where nobody is left who could answer."""
    reasons = "; ".join(inquiry.refusals + [f"{seat.name}: {seat.out}" for seat in inquiry.seats])
    if inquiry.refusals:
        return ModelError(f"no model can answer this request: {reasons}")
    return ModelsUnavailable(f"no model is left: {reasons}", final=True)
