"""An ensemble of models behind one method: choice of a model, reuse of replies, waiting, and the record of calls."""

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
    checked_reply,
)
from evokernel.llm.waiting import CallStop, Clock
from evokernel.protocols import CallLog
from evokernel.records.candidate import Usage
from evokernel.records.llm import CallStatus, ModelCall, ModelCallResult, ModelRequest, Reply, StoredCall
from evokernel.rng import stream

FIRST_BACKOFF_S = 1.0
LONGEST_BACKOFF_S = 60.0
LONGEST_ERROR_CHARACTERS = 600
ALIKE = 10
"""Requests in a row that a model refused with one and the same fault after which it is asked no more."""


class EarlierReplies(Protocol):
    """The calls of another run, read only."""

    def find(self, key: str, sample: int) -> StoredCall | None:
        """Return a call with a usable reply by its key and sample, or None."""


@dataclass(frozen=True, slots=True)
class EnsembleSettings:
    """Settings of an ensemble."""

    seed: int = 0
    """Seed of the draws of models and of jitter."""
    limits: SpendingLimits = field(default_factory=SpendingLimits)
    """Limits on the cost of all calls."""
    islands: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The models that each island may ask; none, or no entry, for all."""
    patience_s: float = 300.0
    """The longest that one request waits for models that do not answer at present, in s."""


class _TryAnother(Exception):
    """This model cannot answer now; another one may. Never leaves this file."""


class _PendingRequest:
    """A request on its way: the models that may still answer it, and its sample number at each."""

    def __init__(self, request: ModelRequest, rules: EnsembleSettings) -> None:
        self.request = request
        self.rng = stream(rules.seed, request.origin.step, f"model {request.ordinal}")
        self.models: list[ConfiguredModel] = []
        self.samples: dict[str, int] = {}
        self.refusals: list[str] = []
        self.over_budget: BudgetSpent | None = None
        self._give_up_s: float | None = None
        self._patience_s = rules.patience_s

    def patience_left_s(self, now_s: float) -> float:
        """Return the time left to wait, in s; it runs from the first call of this method."""
        if self._give_up_s is None:
            self._give_up_s = now_s + self._patience_s
        return self._give_up_s - now_s


class ModelEnsemble:
    """Several models behind budgets, limits and the record of calls. Implements `LanguageModel`.

    A request names the model to ask first, or draws one by weight, the same one however often a run is repeated. A
    reply that was stored for its step is returned again without cost, and so is an earlier run's reply to an equal
    request. Such a reply keeps its tokens: a budget of tokens counts it, and a replay ends where its original did.
    Every attempt is a call of its own in the log, and all attempts of a request at one model are the same sample.

    An attempt that the provider answered with an error, or that never reached it, counts as free. One that ran out of
    time or broke off, and a reply without usage, count with all that was reserved. Spending can pass a budget only
    where a provider reports more tokens than it was allowed.
    """

    def __init__(
        self,
        models: Sequence[ConfiguredModel],
        *,
        log: CallLog,
        rules: EnsembleSettings | None = None,
        older: Sequence[EarlierReplies] = (),
        redactor: Redactor | None = None,
        notify: Callable[[str], None] = lambda text: None,
        clock: Clock | None = None,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        self._models = tuple(models)
        self._log = log
        self._rules = rules or EnsembleSettings()
        self._older = tuple(older)
        self._redactor = redactor or Redactor(())
        self._notify = notify
        self._clock = clock or Clock()
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
            return _reused(stored.result, stored.result.usage, model=stored.call.model)
        pending = _PendingRequest(replace(request, messages=self._redactor.messages(request.messages)), self._rules)
        pending.models = self._candidates(pending)
        while True:
            model = await self._next(pending)
            try:
                return await self._ask(model, pending)
            except _TryAnother:
                continue

    def stop_new_calls(self) -> None:
        """Begin no further attempt: a waiting request raises `ModelsUnavailable`; an attempt under way goes on."""
        self._stop.stop_new_calls()
        for model in self._models:
            model.limiter.end_waiting(ModelsUnavailable("the search is ending: no call is begun any more"))

    async def close(self) -> None:
        """Close connections."""
        self.stop_new_calls()
        for model in self._models:
            model.limiter.close()
            await model.transport.close()
        self._on_close()

    def _candidates(self, pending: _PendingRequest) -> list[ConfiguredModel]:
        """Return the models that may answer: the one that the request names, then the others as drawn by weight."""
        request = pending.request
        named = self._rules.islands.get(request.origin.island, ())
        able = [
            model for model in self._models if request.role in model.config.roles and (not named or model.name in named)
        ]
        if not able:
            where = f" among the models of island {request.origin.island!r}" if named else ""
            raise ModelsUnavailable(f"no model has the role {request.role!r}{where}", final=True)
        total = sum(model.config.weight for model in able)
        shares = [model.config.weight / total for model in able]
        drawn = [able[index] for index in pending.rng.choice(len(able), size=len(able), replace=False, p=shares)]
        return sorted(drawn, key=lambda model: model.name != request.model)

    async def _next(self, pending: _PendingRequest) -> ConfiguredModel:
        """Return the first model that can be asked; where all rest, wait for one."""
        while True:
            self._stop.check()
            able = [model for model in pending.models if not model.lost]
            if not able:
                raise pending.over_budget or _no_model_left(pending)
            now_s = self._clock.now_s()
            rests = [model.rest_s(now_s) for model in able]
            shortest_s = min(rests)
            if shortest_s == 0:
                return able[rests.index(0.0)]
            if shortest_s > pending.patience_left_s(now_s):
                names = ", ".join(model.name for model in able)
                raise ModelsUnavailable(
                    f"no model answers at present ({names}); the first one rests {shortest_s:.0f} s"
                )
            await self._stop.wait_for(self._clock.sleep_s(shortest_s))

    async def _ask(self, model: ConfiguredModel, pending: _PendingRequest) -> Reply:
        """Return a reply of one model, after as many attempts as its settings allow."""
        failed = 0
        while True:
            try:
                return await self._attempt(model, pending)
            except BudgetSpent as error:
                pending.over_budget = error  # another model may be cheaper
                pending.models.remove(model)
                raise _TryAnother from None
            except HopelessRequest as error:
                if model.refused(str(error)) >= ALIKE:
                    self._lose(model, f"{ALIKE} requests in a row ended with the same fault, {error}")
                pending.refusals.append(f"{model.name}: {error}")
                pending.models.remove(model)
                raise _TryAnother from None
            except (HopelessModel, TooLong, RateLimited, TemporaryFailure) as error:
                temporary = isinstance(error, TemporaryFailure)
                failed += temporary
                self._after_failure(model, pending, error=error, failed=failed)
            if self._unavailable(model):
                raise _TryAnother
            if temporary:
                await self._back_off(failed, pending)

    def _after_failure(
        self, model: ConfiguredModel, pending: _PendingRequest, *, error: ModelError, failed: int
    ) -> None:
        """Decide whether a model is asked again, now or ever, after an attempt without a reply."""
        left_s = pending.patience_left_s(self._clock.now_s())
        if isinstance(error, HopelessModel):
            self._lose(model, str(error))
        elif isinstance(error, TooLong) and not self._unavailable(model):
            self._rest(model, "it asked for a long pause", at_least_s=model.limiter.pause_s())
        elif isinstance(error, RateLimited) and left_s <= 0:
            self._rest(model, str(error))
        elif failed > model.config.retries:
            self._rest(model, f"failed {failed} times in a row, last with: {error}")

    def _unavailable(self, model: ConfiguredModel) -> bool:
        return bool(model.lost) or model.rest_s(self._clock.now_s()) > 0

    async def _attempt(self, model: ConfiguredModel, pending: _PendingRequest) -> Reply:
        self._stop.check()
        call = self._call(model, pending)
        if (known := self._known(call, pending)) is not None:
            return known
        async with model.limiter.turn() as ticket:
            worst = WorstCase(call.reserved_tokens, call.reserved_usd)
            while not self._ledger.fits(worst):
                await self._stop.wait_for(self._ledger.next_end())
            self._stop.check()
            if self._unavailable(model):
                raise _TryAnother  # another request found out while this one waited
            call = self._call(model, pending)  # another request may have begun the same sample
            if (known := self._known(call, pending)) is not None:
                return known
            number = self._ledger.begin(call)
            pending.samples[model.name] = call.sample
            return await self._send(model, pending, number=number, call=call, ticket=ticket)

    async def _send(
        self, model: ConfiguredModel, pending: _PendingRequest, *, number: int, call: ModelCall, ticket: Ticket
    ) -> Reply:
        began_s = self._clock.now_s()

        def close(status: CallStatus, text: str, usage: Usage) -> Usage:
            usage = replace(usage, duration_s=self._clock.now_s() - began_s)
            self._ledger.end(number, ModelCallResult(status, text, usage))
            return usage

        try:
            answer = await model.transport.send(pending.request, call.parameters)
        except BaseException as error:
            if isinstance(error, TemporaryFailure | HopelessRequest):
                billed = error.billed
            else:
                billed = not isinstance(error, ModelError)
            text = "given up" if isinstance(error, asyncio.CancelledError) else self._shown(error)
            taken = model.usage(TransportReply(""), call.messages, call.parameters) if billed else Usage(model.name)
            close(CallStatus.FAILED, text, taken)
            if isinstance(error, RateLimited):
                jitter = float(pending.rng.random())
                model.limiter.refused(ticket, retry_after_s=error.retry_after_s, jitter=jitter)
            if isinstance(error, ModelError):
                error.args = (text,)
            raise
        answer = checked_reply(answer, self._redactor.text(answer.text))
        usage = close(answer.status, answer.text, model.usage(answer, call.messages, call.parameters))
        model.answered()
        model.limiter.succeeded()
        return Reply(answer.text, usage, answer.status, model=model.name)

    def _call(self, model: ConfiguredModel, pending: _PendingRequest) -> ModelCall:
        request = pending.request
        parameters: dict[str, Any] = self._redactor.value(model.parameters(request))
        worst = model.worst_case(request.messages, parameters)
        call = ModelCall(
            origin=request.origin,
            ordinal=request.ordinal,
            role=request.role,
            model=model.name,
            messages=request.messages,
            parameters=parameters,
            sample=0,
            reserved_tokens=worst.tokens,
            reserved_usd=worst.usd,
        )
        sample = pending.samples.get(model.name)
        return replace(call, sample=self._log.samples(call.key) if sample is None else sample)

    def _known(self, call: ModelCall, pending: _PendingRequest) -> Reply | None:
        """Return an earlier run's reply, written down as a call of this run without cost, or None."""
        if call.model in pending.samples:
            return None  # looked for before the first attempt
        found = next((each for log in self._older if (each := log.find(call.key, call.sample)) is not None), None)
        if found is None or found.result is None:
            return None
        usage = replace(found.result.usage, cost_usd=0.0, duration_s=0.0)
        tokens = usage.prompt_tokens + usage.completion_tokens
        if not self._ledger.fits(WorstCase(tokens, 0.0)):
            return None  # asked for again once other calls have ended
        number = self._ledger.begin(replace(call, reserved_tokens=tokens, reserved_usd=0.0))
        self._ledger.end(number, ModelCallResult(found.result.status, found.result.text, usage))
        return _reused(found.result, usage, model=call.model)

    async def _back_off(self, failed: int, pending: _PendingRequest) -> None:
        pause_s = min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** (failed - 1)) * (0.5 + float(pending.rng.random()))
        await self._stop.wait_for(self._clock.sleep_s(pause_s))

    def _lose(self, model: ConfiguredModel, reason: str) -> None:
        if not model.lost:
            model.lost = reason
            self._notify(f"model {model.name} is not asked any more: {reason}")
            model.limiter.end_waiting(TooLong("will never answer"))

    def _rest(self, model: ConfiguredModel, reason: str, *, at_least_s: float = 0.0) -> None:
        rest_s = model.rest(self._clock.now_s(), at_least_s=at_least_s)
        if rest_s is not None:
            self._notify(f"model {model.name} is left alone for {rest_s:.0f} s: {reason}")
            model.limiter.end_waiting(TooLong("rests"))

    def _shown(self, error: BaseException) -> str:
        text = self._redactor.text(f"{error}" or type(error).__name__)
        return text if len(text) <= LONGEST_ERROR_CHARACTERS else text[:LONGEST_ERROR_CHARACTERS] + " ..."


def _reused(result: ModelCallResult, usage: Usage, *, model: str) -> Reply:
    return Reply(result.text, usage, result.status, reused=True, model=model)


def _no_model_left(pending: _PendingRequest) -> ModelError:
    reasons = "; ".join(pending.refusals + [f"{model.name}: {model.lost}" for model in pending.models])
    if pending.refusals:
        return ModelError(f"no model can answer this request: {reasons}")
    return ModelsUnavailable(f"no model is left: {reasons}", final=True)
