"""The asking side of a search: operators at work, those that wait for a model, and the limits on them."""

import logging
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from traceback import extract_tb

from archive.file.records import NoCandidate
from evokernel.engine.inbox import AnsweredPrompt
from evokernel.errors import BudgetSpent, ModelError, ModelsUnavailable
from evokernel.protocols import CallLog, LanguageModel, Operator, asks_model
from evokernel.records.candidate import Candidate, Usage
from evokernel.records.events import Notice
from evokernel.records.llm import CallStatus, ModelCall, ModelCallResult, ModelRequest, Reply
from evokernel.records.remarks import RemarkKind
from evokernel.records.step import Answer, Context, ContextNeed, Draft, Look, LookRequest, Selection, UnusableReply

logger = logging.getLogger(__name__)

REST_S = 60.0
"""Time without calls after no model answered, in s."""
ANSWERED = "answer"
"""The parameter that holds the inbox number of a reply from elsewhere."""
PATIENCE = 40
"""Replies in a row without a new kernel after which a session asks no model any more, to save money."""
ALIKE = 10
"""Replies in a row with one and the same fault after which it asks no more."""
_SHOWN = 200
"""Characters of such a reply that are shown."""


class ModelGate:
    """Runs operators; counts those that wait for a model, and decides whether one may be asked.

    Args:
        model: answers; None where no operator asks one.
        most: operators that may wait for a model at once.
        rules_go_on: a budget without money for another call does not end the run.
        clock: in s; another one for tests.
    """

    def __init__(
        self,
        model: LanguageModel | None,
        notify: Callable[[Notice], None],
        *,
        most: int,
        rules_go_on: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.count = 0
        """Operators that wait for a model."""
        self.spent = ""
        """The reason that the budget allows no further call; empty while it does."""
        self.running: list[Selection] = []
        """The selections of operators that wait for a model."""
        self._model = model
        self._notify = notify
        self._most = most
        self._rules_go_on = rules_go_on
        self._clock = clock
        self._lost: dict[tuple[str, str], str] = {}  # by island and role: why no model will answer any more
        self._rest_ends_s: dict[tuple[str, str], float] = {}  # by island and role, by the clock
        self._away_until_s: dict[tuple[str, str], float] = {}  # by operator and model, by the clock
        self._stopped = False
        self._replies_in_vain = 0
        self._last_fault, self._alike = "", 0
        self._given_up = ""

    @property
    def room(self) -> bool:
        """Say whether another operator may ask a model now."""
        return self.count < self._most and not (self.spent or self._given_up or self._stopped)

    @property
    def resting(self) -> bool:
        """Say whether some operators may not ask for a while, since no model answered them."""
        return any(self._clock() < at for at in self._rest_ends_s.values()) and not (self.spent or self._stopped)

    @property
    def ends_run(self) -> str:
        """The reason to end the run, since the budget allows no further call; empty where rules go on."""
        return "" if self._rules_go_on else self.spent

    @property
    def lost_reason(self) -> str:
        """The reason that no model is asked any more; empty where none was lost."""
        return self._given_up or self.spent or "; ".join(dict.fromkeys(self._lost.values()))

    def may_ask(self, island: str, role: str) -> bool:
        """Say whether an operator with a role may ask for an island: none of its models rests or is lost."""
        place = (island, role)
        return place not in self._lost and self._clock() >= self._rest_ends_s.get(place, 0.0)

    def at_hand(self, operator: str, model: str) -> bool:
        """Say whether a model may be asked first for an operator: no other one answered in its place lately."""
        return self._clock() >= self._away_until_s.get((operator, model), 0.0)

    def stop_new_calls(self) -> None:
        """Begin no further call; calls under way go on."""
        self._stopped = True
        if self._model is not None:
            self._model.stop_new_calls()

    async def close(self) -> None:
        """Close the model."""
        if self._model is not None:
            await self._model.close()

    async def answer(
        self, operator: Operator, context: Context, *, look: Callable[[LookRequest, Context], Awaitable[Look]]
    ) -> Answer | None:
        """Return an operator's answer to its context; for a fault of the operator one that cannot be used.

        An operator that asks for a look gets what `look` returns, and is asked again.

        Raises:
            BudgetSpent, ModelsUnavailable: no model answered; another session may take the step up.
        """
        began = time.monotonic()
        waits = asks_model(operator)
        held = [context.selection] if waits and context.selection is not None else []
        self.count += waits
        self.running += held
        try:
            found = await self._asked(operator, context)
            if isinstance(found, LookRequest):
                found = await self._asked(operator, replace(context, look=await look(found, context)))
        finally:
            self.count -= waits
            for selection in held:
                self.running.remove(selection)
        if isinstance(found, Draft) and found.usage.duration_s == 0:
            found = replace(found, usage=replace(found.usage, duration_s=time.monotonic() - began))
        if found is not None and held and held[0].model:
            return self._of_model(found, operator.name, held[0].model)
        return found

    def _of_model(self, found: Answer, operator: str, model: str) -> Answer:
        """Return an answer with the model that was asked first, if it names none; note where another one gave it."""
        if not found.usage.model:
            return replace(found, usage=replace(found.usage, model=model))
        if found.usage.model != model:
            self._away_until_s[operator, model] = self._clock() + REST_S
        return found

    def checked(self, found: Answer | None, known: Collection[str], *, language: str) -> Answer | None:
        """Return the answer of an operator that asks a model; a known kernel makes it one that cannot be used.

        After `PATIENCE` answers in a row without a new kernel no model is asked any more. Insights are such answers.
        Nor is one after `ALIKE` answers in a row with the same fault.
        """
        if isinstance(found, Draft):
            name = Candidate(found.source, language).id
            if name in known:
                found = UnusableReply(f"a kernel that is known already: {name}", found.usage)
        self._replies_in_vain = 0 if isinstance(found, Draft) else self._replies_in_vain + 1
        fault = found.reason if isinstance(found, UnusableReply) else ""
        self._alike = self._alike + 1 if fault and fault == self._last_fault else bool(fault)
        self._last_fault = fault
        if self._replies_in_vain >= PATIENCE:
            self._give_up(f"none of the last {PATIENCE} replies of models gave a new kernel")
        elif self._alike >= ALIKE and isinstance(found, UnusableReply):
            began = f"; the last one began: {found.text[:_SHOWN]!r}" if found.text else ""
            self._give_up(f"{ALIKE} replies of models in a row had the same fault, {fault}{began}")
        return found

    def _give_up(self, reason: str) -> None:
        if not self._given_up:
            self._given_up = reason
            self._notify(_rest_notice(f"models are asked no more: {reason}"))

    async def _asked(self, operator: Operator, context: Context) -> Answer | None:
        try:
            return await operator.propose(context)
        except BudgetSpent as error:
            if not self.spent and self._rules_go_on:
                self._notify(_rest_notice(f"models are asked no more, and the rules go on: {error}"))
            self.spent = self.spent or str(error)
            raise
        except ModelsUnavailable as error:
            self._rest(error, (context.island, operator.role if asks_model(operator) else ""))
            raise
        except ModelError as error:
            return UnusableReply(f"no usable reply: {error}")
        except Exception as error:  # the edge of an operator: a fault of one must not end the search
            logger.info("operator %s failed at step %d", operator.name, context.step, exc_info=True)
            reason = f"{type(error).__name__}: {error}"
            last = extract_tb(error.__traceback__)[-1]
            text = f"operator {operator.name} failed at step {context.step}: {reason} ({last.filename}:{last.lineno})"
            self._notify(Notice(text, warning=True, kind=RemarkKind.FAULT, step=context.step))
            return UnusableReply(reason)

    def _rest(self, error: ModelsUnavailable, place: tuple[str, str]) -> None:
        if self._stopped:
            return
        target = f"to {place[1]} for island {place[0]}"
        if error.final:
            if place not in self._lost:
                self._notify(_rest_notice(f"models are asked no more {target}: {error}"))
            self._lost[place] = str(error)
        elif self.may_ask(*place):
            self._rest_ends_s[place] = self._clock() + REST_S
            self._notify(_rest_notice(f"no model answers; next try {target} in {REST_S:.0f} s: {error}"))


def _rest_notice(text: str) -> Notice:
    return Notice(text, warning=True, kind=RemarkKind.MODEL_REST)


def is_drafter(operator: Operator) -> bool:
    """Say whether an operator makes a kernel without any parent."""
    return asks_model(operator) and operator.parents == 0 and ContextNeed.BROKEN not in operator.needs


def no_candidate(
    selection: Selection, asked_seq: int, *, reason: str = "", usage: Usage | None = None, exhausted: bool = True
) -> NoCandidate:
    """Return the record of a step without a candidate."""
    return NoCandidate(
        step=selection.step,
        operator=selection.operator,
        island=selection.island,
        asked_seq=asked_seq,
        reason=reason,
        parents=selection.origin.parents,
        usage=usage or Usage(),
        exhausted=exhausted,
    )


def record_answer(log: CallLog, answer: AnsweredPrompt, step: int, *, role: str) -> None:
    """Write a reply from elsewhere down as a call of a step, without cost."""
    call = ModelCall(
        origin=answer.origin(step),
        ordinal=0,
        role=role,
        model=answer.model,
        messages=answer.prompt,
        parameters={ANSWERED: answer.entry},
        sample=0,
        reserved_tokens=0,
        reserved_usd=0.0,
    )
    log.end(log.begin(call), ModelCallResult(CallStatus.OK, answer.reply, Usage(model=answer.model)))


class ModelMissing:
    """A `LanguageModel` for runs without one: it returns answers from elsewhere."""

    def __init__(self, log: CallLog) -> None:
        self._log = log

    async def complete(self, request: ModelRequest) -> Reply:
        """Return the reply written down for this step. Raises `ModelsUnavailable` where there is none."""
        found = self._log.of_step(request.origin.step, request.ordinal)
        if found is None or found.result is None or found.call.origin != request.origin:
            raise ModelsUnavailable("the config names no models; `evokernel ask` writes prompts as files", final=True)
        return Reply(found.result.text, found.result.usage, found.result.status, reused=True)

    def stop_new_calls(self) -> None:
        """Do nothing: no call waits."""

    async def close(self) -> None:
        """Do nothing."""
