"""The asking side of a search: operators at work, those that wait for a model among them, and what stops them."""

import logging
import time
from collections.abc import Callable, Collection
from dataclasses import replace

from archive.records import NoCandidate
from evokernel.engine.inbox import AnsweredPrompt
from evokernel.errors import BudgetSpent, ModelError, ModelsUnavailable
from evokernel.protocols import CallLog, LanguageModel, Operator
from evokernel.records.candidate import Candidate, Usage
from evokernel.records.events import Notice
from evokernel.records.llm import CallStatus, ModelCall, ModelCallResult, ModelRequest, Reply
from evokernel.records.remarks import RemarkKind
from evokernel.records.step import Answer, Context, ContextNeed, Draft, Selection, UnusableReply
from islands.archipelago import is_thinker

logger = logging.getLogger(__name__)

REST_S = 60.0
"""How long no model is asked after none answered."""
ANSWERED = "answer"
"""The parameter that holds, of a reply from elsewhere, its number in the inbox."""
PATIENCE = 40
"""After so many replies in a row without a new kernel a session asks no model any more: money would be lost."""


class ModelGate:
    """Lets operators answer; knows how many wait for a model, whether one may be asked, and why not.

    Args:
        model: what answers; None where no operator asks one.
        tell: hears what a person should know.
        most: operators that may wait for a model at once.
        clock: in s; another one for tests.
    """

    def __init__(
        self,
        model: LanguageModel | None,
        tell: Callable[[Notice], None],
        *,
        most: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.count = 0
        self.spent = ""
        """Why the budget allows no further call; empty while it does."""
        self.running: list[Selection] = []
        """What those that wait for a model work on."""
        self._model = model
        self._tell = tell
        self._most = most
        self._clock = clock
        self._silent: dict[tuple[str, str], str] = {}  # by island and role: why no model will answer any more
        self._awake_at: dict[tuple[str, str], float] = {}  # when one may be asked again
        self._hushed = False
        self._useless = 0
        self._given_up = ""

    @property
    def room(self) -> bool:
        """Whether another operator may ask a model now."""
        return self.count < self._most and not (self.spent or self._given_up or self._hushed)

    @property
    def resting(self) -> bool:
        """Whether some operators are not let ask for a while, since no model answered them."""
        return any(self._clock() < at for at in self._awake_at.values()) and not (self.spent or self._hushed)

    @property
    def silenced(self) -> str:
        """Why no model is asked any more; empty where none was lost."""
        return self._given_up or "; ".join(dict.fromkeys(self._silent.values()))

    def may_ask(self, island: str, role: str) -> bool:
        """Say whether an operator with a role may ask for an island: its models answer, as far as is known."""
        place = (island, role)
        return place not in self._silent and self._clock() >= self._awake_at.get(place, 0.0)

    def hush(self) -> None:
        """Ask no model any more; replies under way are waited for."""
        self._hushed = True
        if self._model is not None:
            self._model.hush()

    async def close(self) -> None:
        """Let go of the model."""
        if self._model is not None:
            await self._model.close()

    async def answer(self, operator: Operator, context: Context) -> Answer | None:
        """Return what an operator makes of its context; a fault of its own is an answer that cannot be used.

        Raises:
            BudgetSpent, ModelsUnavailable: it could not be asked to the end; another session may take the step up.
        """
        began = time.monotonic()
        thinks = is_thinker(operator)
        held = [context.selection] if thinks and context.selection is not None else []
        self.count += thinks
        self.running += held
        try:
            found = await self._asked(operator, context)
        finally:
            self.count -= thinks
            for selection in held:
                self.running.remove(selection)
        if isinstance(found, Draft) and found.usage.duration_s == 0:
            found = replace(found, usage=replace(found.usage, duration_s=time.monotonic() - began))
        return found

    def checked(self, found: Answer | None, known: Collection[str], *, language: str) -> Answer | None:
        """Return what a model's operator answered; a kernel that is known by now is of no use.

        After so many answers in a row without a new kernel no model is asked any more, words or not.
        """
        if isinstance(found, Draft):
            name = Candidate(found.source, language).id
            if name in known:
                found = UnusableReply(f"a kernel that is known already: {name}", found.usage)
        self._useless = 0 if isinstance(found, Draft) else self._useless + 1
        if self._useless >= PATIENCE and not self._given_up:
            self._given_up = f"none of the last {PATIENCE} replies of models gave a new kernel"
            self._tell(_rest_notice(f"models are asked no more: {self._given_up}"))
        return found

    async def _asked(self, operator: Operator, context: Context) -> Answer | None:
        try:
            return await operator.propose(context)
        except BudgetSpent as error:
            self.spent = self.spent or str(error)
            raise
        except ModelsUnavailable as error:
            self._rest(error, (context.island, operator.role if is_thinker(operator) else ""))
            raise
        except ModelError as error:
            return UnusableReply(f"no usable reply: {error}")
        except Exception as error:  # the edge of an operator: a fault of one must not end the search
            logger.exception("operator %s failed at step %d", operator.name, context.step)
            reason = f"{type(error).__name__}: {error}"
            text = f"operator {operator.name} failed at step {context.step}: {reason}"
            self._tell(Notice(text, warning=True, kind=RemarkKind.FAULT, step=context.step))
            return UnusableReply(reason)

    def _rest(self, error: ModelsUnavailable, place: tuple[str, str]) -> None:
        if self._hushed:
            return
        who = f"to {place[1]} for island {place[0]}"
        if error.final:
            if place not in self._silent:
                self._tell(_rest_notice(f"models are asked no more {who}: {error}"))
            self._silent[place] = str(error)
        elif self.may_ask(*place):
            self._awake_at[place] = self._clock() + REST_S
            self._tell(_rest_notice(f"no model answers; next try {who} in {REST_S:.0f} s: {error}"))


def _rest_notice(text: str) -> Notice:
    return Notice(text, warning=True, kind=RemarkKind.MODEL_REST)


def is_drafter(operator: Operator) -> bool:
    """Say whether an operator makes a kernel without any parent."""
    return is_thinker(operator) and operator.parents == 0 and ContextNeed.BROKEN not in operator.wants


def barren_step(
    selection: Selection, asked_seq: int, *, reason: str = "", usage: Usage | None = None, exhausted: bool = True
) -> NoCandidate:
    """Return the record of a step that gave no candidate."""
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
    """Write a reply that was given elsewhere down as a call of a step, which cost nothing here."""
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
    """A `LanguageModel` for runs without one: it gives what was answered elsewhere, and says how to get that."""

    def __init__(self, log: CallLog) -> None:
        self._log = log

    async def complete(self, request: ModelRequest) -> Reply:
        """Return what is written down for this step. Raises `ModelsUnavailable`."""
        found = self._log.of_step(request.origin.step, request.ordinal)
        if found is None or found.result is None or found.call.origin != request.origin:
            raise ModelsUnavailable("the config names no models; `evokernel ask` writes prompts as files", final=True)
        return Reply(found.result.text, found.result.usage, found.result.status, reused=True)

    def hush(self) -> None:
        """Do nothing: nobody waits."""

    async def close(self) -> None:
        """Do nothing."""
