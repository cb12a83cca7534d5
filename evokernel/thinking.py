"""The asking side of a search: operators at work, those that wait for a model among them, and what stops them."""

import logging
import time
from collections.abc import Callable
from dataclasses import replace

from archive.records import Barren
from evokernel.candidate import Candidate, Usage
from evokernel.conversation import Call, CallResult, CallStatus, ModelRequest, Reply
from evokernel.errors import BudgetSpent, ModelError, ModelsUnavailable
from evokernel.handed_in import Answered
from evokernel.protocols import CallLog, LanguageModel, Note, Operator
from evokernel.steps import Answer, Context, Draft, Selection, Unusable, Want
from islands.archipelago import is_thinker

logger = logging.getLogger(__name__)

REST_S = 60.0
"""How long no model is asked after none answered."""
ANSWERED = "answer"
"""The parameter that holds, of a reply from elsewhere, its number in the inbox."""
PATIENCE = 40
"""After so many replies in a row that cannot be used, a session asks no model any more: money would be lost."""


class Thinking:
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
        tell: Callable[[Note], None],
        *,
        most: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.count = 0
        self.spent = ""
        """Why the budget allows no further call; empty while it does."""
        self.silenced = ""
        """Why no model will answer any more; empty while one may."""
        self._model = model
        self._tell = tell
        self._most = most
        self._clock = clock
        self._awake_at = 0.0
        self._hushed = False
        self._useless = 0

    @property
    def room(self) -> bool:
        """Whether another operator may ask a model now."""
        return self.count < self._most and not (self.spent or self.silenced or self._hushed or self.resting)

    @property
    def resting(self) -> bool:
        """Whether no model is asked for a while, since none answered."""
        return self._clock() < self._awake_at and not (self.spent or self._hushed)

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

        A source that is known already is none either, where a model was paid for it.

        Raises:
            BudgetSpent: the budget allows no further call; the step may be taken up with a larger one.
        """
        began = time.monotonic()
        thinks = is_thinker(operator)
        self.count += thinks
        try:
            found = await self._asked(operator, context)
        finally:
            self.count -= thinks
        if thinks:
            found = self._usable(found, context)
        if isinstance(found, Draft) and found.usage.duration_s == 0:
            found = replace(found, usage=replace(found.usage, duration_s=time.monotonic() - began))
        return found

    def _usable(self, found: Answer | None, context: Context) -> Answer | None:
        if isinstance(found, Draft):
            name = Candidate(found.source, context.language).id
            if name in context.known:
                found = Unusable(f"a kernel that is known already: {name}", found.usage)
        self._useless = self._useless + 1 if isinstance(found, Unusable) else 0
        if self._useless >= PATIENCE and not self.silenced:
            self.silenced = f"none of the last {PATIENCE} replies of models could be used"
            self._tell(Note(f"models are asked no more: {self.silenced}", warning=True))
        return found

    async def _asked(self, operator: Operator, context: Context) -> Answer | None:
        try:
            return await operator.propose(context)
        except BudgetSpent as error:
            self.spent = self.spent or str(error)
            raise
        except ModelsUnavailable as error:
            self._rest(error)
            return Unusable(f"not answered: {error}")
        except ModelError as error:
            return Unusable(f"no usable reply: {error}")
        except Exception as error:  # the edge of an operator: a fault of one must not end the search
            logger.exception("operator %s failed at step %d", operator.name, context.step)
            reason = f"{type(error).__name__}: {error}"
            self._tell(Note(f"operator {operator.name} failed at step {context.step}: {reason}", warning=True))
            return Unusable(reason)

    def _rest(self, error: ModelsUnavailable) -> None:
        if self._hushed:
            return
        if error.final:
            if not self.silenced:
                self._tell(Note(f"models are asked no more: {error}", warning=True))
            self.silenced = str(error)
        elif not self.resting:
            self._awake_at = self._clock() + REST_S
            self._tell(Note(f"no model answers; next try in {REST_S:.0f} s: {error}", warning=True))


def is_drafter(operator: Operator) -> bool:
    """Say whether an operator makes a kernel without any parent."""
    return is_thinker(operator) and operator.parents == 0 and Want.BROKEN not in operator.wants


def barren_step(
    selection: Selection, asked_seq: int, *, reason: str = "", usage: Usage | None = None, exhausted: bool = True
) -> Barren:
    """Return the record of a step that gave no candidate."""
    return Barren(
        step=selection.step,
        operator=selection.operator,
        island=selection.island,
        asked_seq=asked_seq,
        reason=reason,
        parents=selection.origin.parents,
        usage=usage or Usage(),
        exhausted=exhausted,
    )


def record_answer(log: CallLog, answer: Answered, step: int, *, role: str) -> None:
    """Write a reply that was given elsewhere down as a call of a step, which cost nothing here."""
    call = Call(
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
    log.end(log.begin(call), CallResult(CallStatus.OK, answer.reply, Usage(model=answer.model)))


class NoModel:
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
