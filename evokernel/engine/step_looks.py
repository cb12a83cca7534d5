"""Looks that an operator asks for before it answers: each becomes a fact of the store before a model reads it."""

import asyncio
from collections.abc import Callable
from difflib import unified_diff

from archive.inbox import look_text
from archive.store import Store
from evokernel.engine.inbox import LOOK
from evokernel.engine.state_fold import StateFold
from evokernel.protocols import Language, Operator, asks_model
from evokernel.records.candidate import Candidate
from evokernel.records.fitness import Elite
from evokernel.records.step import Context, ContextNeed, Look, LookKind, LookRequest
from islands.assignment import likeness

ALIKE = 0.5
"""Least share of lines that a kernel has in common with one that it is compared with."""
LONGEST = 12_000
"""Characters of a look."""


class StepLooks:
    """Looks at the kernel of a step.

    Args:
        language: of the candidates; one with a `hot_loop` shows machine code.
        take_inbox: makes facts of what waits in the inbox.
    """

    def __init__(self, store: Store, fold: StateFold, language: Language, take_inbox: Callable[[], None]) -> None:
        self._store = store
        self._fold = fold
        self._hot_loop: Callable[[str], str] | None = getattr(language, "hot_loop", None)
        self._take_inbox = take_inbox

    def offered(self, operator: Operator, context: Context) -> tuple[LookKind, ...]:
        """Return the looks that are possible in a step; none where its operator asks for none."""
        if not asks_model(operator) or ContextNeed.LOOK not in operator.needs:
            return ()
        subject, relative = _subject(context), self._relative(context)
        possible = {
            LookKind.PROFILE: subject is not None and subject.id in context.verdicts,
            LookKind.MACHINE_CODE: self._hot_loop is not None and bool(context.parents),
            LookKind.DIFF: relative is not None,
        }
        return tuple(kind for kind, there in possible.items() if there)

    async def take(self, asked: LookRequest, context: Context) -> Look:
        """Return a look: the stored one where this step took it before a kill, else one that is stored now."""
        text = look_text(self._store.database, context.step)
        if text is None:
            text = (await self._seen(asked.kind, context))[:LONGEST] or "(nothing is known)"
            subject, operator = _subject(context), context.selection.operator if context.selection else ""
            kept = {"step": context.step, "island": context.island, "look": asked.kind.value, "text": text}
            kept["candidate"] = subject.id if subject else ""
            Store.inbox_put(self._store.database.path, LOOK, kept, author=operator)
            self._take_inbox()
        return Look(asked, text)

    async def _seen(self, kind: LookKind, context: Context) -> str:
        from operators.llm.compiler_text import compiled  # runs by rule do without them
        from operators.llm.kernel_text import speed_of

        subject, relative = _subject(context), self._relative(context)
        verdict = context.verdicts.get(subject.id) if subject else None
        if kind is LookKind.PROFILE and verdict is not None:
            return "\n\n".join(filter(None, (compiled(verdict.metrics, verdict.descriptor), verdict.remarks)))
        if kind is LookKind.MACHINE_CODE and self._hot_loop is not None and subject is not None:
            return await asyncio.to_thread(self._hot_loop, subject.source)
        if kind is LookKind.DIFF and relative is not None and subject is not None:
            stored = self._fold.history.verdicts.get(relative.candidate.id)
            before, after = subject.source.splitlines(), relative.candidate.source.splitlines()
            changes = unified_diff(before, after, lineterm="")
            speed = speed_of(relative, stored.evaluation if stored else None)
            return "\n".join([f"with these changes it would be {relative.candidate.id}: {speed}", *list(changes)[2:]])
        return ""

    def _relative(self, context: Context) -> Elite | None:
        """Return the right kernel of another structure with the most lines in common, the fastest of equal ones."""
        if not context.parents:
            return None
        first, history = context.parents[0], self._fold.history
        others = [each for each in history.near(list(history.elites.values())) if each.skeleton != first.skeleton]
        ranked = [(likeness(each, first), each.fitness.value, -each.seq, each) for each in others]
        best = max(ranked, key=lambda one: one[:3], default=None)
        return best[3] if best is not None and best[0] >= ALIKE else None


def _subject(context: Context) -> Candidate | None:
    if context.broken is not None:
        return context.broken.candidate
    return context.parents[0].candidate if context.parents else None
