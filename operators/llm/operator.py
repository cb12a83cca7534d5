"""Operators that ask a model: a template fixes the prompt and the reading of the reply; the rest is common."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from evokernel.errors import BudgetSpent, ConfigError, ModelError, ModelsUnavailable
from evokernel.protocols import LanguageModel, ModelOperator
from evokernel.records.candidate import Candidate, Usage
from evokernel.records.fitness import Elite
from evokernel.records.hidden_check import CheckReply
from evokernel.records.llm import CallStatus, Insight, InsightKind, Message, ModelRequest, Origin, Reply
from evokernel.records.prompt_settings import FeedbackLevel, HistoryKind
from evokernel.records.step import (
    Answer,
    Context,
    ContextNeed,
    Draft,
    InsightReply,
    LookKind,
    LookRequest,
    OperatorKind,
    Prompt,
    UnusableReply,
)
from evokernel.source.protected import protected_change
from evokernel.source.tunables import read_tunables
from operators.llm.parent_state import ParentState, parent_state
from operators.llm.prompt import PromptSection, fill, keep, tokens_of
from operators.llm.replies import (
    UnreadableReply,
    ends_open,
    join,
    read_checks,
    read_idea,
    read_kernel,
    read_notes,
    read_prediction,
    tidy,
)
from operators.llm.replies.kernels import ReplyExpectation
from operators.llm.replies.words import labelled, split
from operators.llm.sections import GROUPS, in_order, sections_of
from operators.llm.templates import ReplyKind, Template, TemplateNeed
from operators.quoting import fence, one_line

T = TypeVar("T", str, int)
PROMPT_TOKENS = 16000
LONGEST_CONTINUED = 64_000
"""The longest reply, in characters, that is continued: the continuation pays for all of it again as a prompt."""
SEEN = (
    "What you asked to see, the {kind}:\n\n{text}\n\nNow answer in the form described above; there is no further look."
)
GO_ON = (
    "Your reply was cut off at its length limit. Go on exactly where you stopped, in the middle of a line if need be: "
    "no repetition, no introduction, no new fence."
)


class TemplateOperator(ModelOperator):
    """An operator that asks a model as a template says.

    Args:
        template: the prompt, and the kind of reply.
        model: the model to ask; None where prompts are written and replies read, and no model is asked.
        prompt_tokens: the longest prompt, as estimated in `operators.llm.prompt`; sections without a worth stay even
            where they alone are longer.
        feedback: the evaluator's words in the prompt, where the template does not say.
        history: the earlier changes in the prompt, where the template does not say.
        plans: strategies that one call asks for, where the template asks for one.
    """

    kind = OperatorKind.MODEL

    def __init__(
        self,
        template: Template,
        model: LanguageModel | None = None,
        *,
        prompt_tokens: int = PROMPT_TOKENS,
        feedback: FeedbackLevel = FeedbackLevel.PROFILE,
        history: HistoryKind = HistoryKind.ALL,
        plans: int = 1,
    ) -> None:
        self.name = template.name
        self.parents = template.settings.parents
        self.needs = frozenset(template.settings.wants)
        self.role = template.settings.role
        self.about = template.settings.about
        self._template = template
        self._model = model
        self._prompt_tokens = prompt_tokens
        self._plans = plans
        self._run_feedback = feedback
        self._feedback = template.settings.feedback or feedback
        self._history = template.settings.history or history

    def prompt(self, context: Context) -> Prompt:
        """Return the prompt for a context. Raises `ConfigError` where a user's template cannot be rendered."""
        found = ContextNeed.STATE in self.needs and parent_state(context) is ParentState.BOTTLENECK
        feedback = self._run_feedback if found else self._feedback
        sections = sections_of(context, self.needs, feedback=feedback, history=self._history)
        system, skeleton = self._template.render(self._values(context), frozenset(section.name for section in sections))
        spare = self._prompt_tokens - tokens_of(len(system))
        kept, dropped = keep(skeleton, sections, GROUPS, spare_tokens=spare)
        text = fill(skeleton, kept, dropped, GROUPS)
        return Prompt(
            messages=(Message("system", system), Message("user", text)),
            context=context,
            inspirations=_references(kept, "inspirations", str),
            insights=_references(kept, "insights", int),
            strategies=_references(kept, "strategies", int),
        )

    def read(self, reply: str, prompt: Prompt) -> Answer:
        """Return the answer in a reply: `UnusableReply` with the reason for any text without one."""
        try:
            text = tidy(reply)
            if self._template.settings.reply.is_kernel:
                return self._read_kernel(text, prompt)
            if self._template.settings.reply is ReplyKind.CHECKS:
                return CheckReply(read_checks(text))
            first, *others = self._read_insights(text, prompt)
            return InsightReply(first, others=tuple(others))
        except UnreadableReply as unread:
            return UnusableReply(str(unread), text=reply)

    async def propose(self, context: Context) -> Answer | None:
        """Return the answer in the model's reply, or None where the context lacks an input of this operator.

        A reply that was cut off is continued once. A reply that asks for a look on offer is returned as a request.

        Raises:
            BudgetSpent: the call could cost more than is left.
            ModelsUnavailable: no model answers.
            ConfigError: there is no model to ask.
        """
        if self._model is None:
            raise ConfigError(f"operator {self.name!r} asks a model, and there is none; name one under `models:`")
        if not self._has_input(context):
            return None
        prompt, usage, look, begin = self.prompt(context), Usage(), context.look, 0
        messages = prompt.messages
        if look is not None:
            usage, begin = look.asked.usage, 1
            seen = Message("user", SEEN.format(kind=look.asked.kind, text=fence(look.text)))
            messages = (*messages, Message("assistant", look.asked.text), seen)
        text = ""
        for ordinal in (begin, begin + 1):
            try:
                reply = await self._model.complete(self._request(context, ordinal, messages))
            except (BudgetSpent, ModelsUnavailable):
                raise
            except ModelError as error:
                return UnusableReply(f"no usable reply: {error}", usage)
            usage = _sum(usage, reply, first=ordinal == 0)
            text = join(text, reply.text) if ordinal > begin else reply.text
            if ordinal == 0 and (kind := _asked_look(reply.text, context)):
                return LookRequest(kind, reply.text, usage)
            if not reply.truncated or len(reply.text) > LONGEST_CONTINUED:
                break
            messages = (*messages, Message("assistant", reply.text), Message("user", GO_ON))
        return replace(self._judge(reply, text, prompt), usage=usage)

    def _judge(self, last: Reply, text: str, prompt: Prompt) -> Answer:
        if last.status is CallStatus.REFUSED:
            return UnusableReply(f"the model declines: {one_line(text) or 'it gives no reason'}", text=text)
        if last.truncated and ends_open(text):
            return UnusableReply("the reply was cut off twice in the middle of the code: a larger max_tokens may help")
        return self.read(text, prompt)

    def _has_input(self, context: Context) -> bool:
        least = 2 if ContextNeed.LADDER in self.needs else self.parents
        lacks = {
            ContextNeed.BROKEN: context.broken is None,
            ContextNeed.FOREIGN: not context.foreign,
            ContextNeed.STRATEGY: not self._strategies(context),
        }
        mends = ContextNeed.STATE in self.needs and context.broken is not None
        return (mends or len(context.parents) >= least) and not any(lacks.get(need, False) for need in self.needs)

    def _request(self, context: Context, ordinal: int, messages: tuple[Message, ...]) -> ModelRequest:
        names = tuple(elite.candidate.id for elite in context.parents)
        origin = (
            context.selection.origin if context.selection else Origin(context.step, context.island, self.name, names)
        )
        settings = self._template.settings
        return ModelRequest(
            origin=origin,
            ordinal=ordinal,
            role=settings.role,
            messages=messages,
            temperature=settings.temperature,
            max_tokens=settings.max_tokens,
            model=context.selection.model if context.selection else "",
        )

    def _values(self, context: Context) -> dict[str, str | int]:
        verdicts = [context.verdicts.get(elite.candidate.id) for elite in context.parents]
        ports = ContextNeed.FOREIGN in self.needs
        floors = [timing.floor_us for verdict in verdicts if verdict for timing in verdict.timings]
        return {
            "operator": self.name,
            "language": context.language,
            "other_language": context.foreign[0].language if ports and context.foreign else "",
            "reply": self._template.settings.reply.value,
            "base": self._base_name(context),
            "kernels": len(context.parents),
            "tries": context.broken.tries if context.broken else 0,
            "state": parent_state(context).value,
            "looks": ", ".join(context.looks),
            "plans": self._plans,
            "bottlenecks": int(context.hypotheses is not None),
            "crossing": int(len(self._strategies(context)) > 1),
            "limited": int(any(floors) and self._feedback.holds(FeedbackLevel.TIMES)),
        }

    def _mends(self, context: Context) -> bool:
        return ContextNeed.BROKEN in self.needs or (ContextNeed.STATE in self.needs and context.broken is not None)

    def _base_name(self, context: Context) -> str:
        if self._mends(context):
            return "the broken kernel"
        last = len(context.parents) if ContextNeed.LADDER in self.needs else 1
        return f"kernel {last}" if context.parents else ""

    def _base(self, context: Context) -> Candidate | None:
        """Return the kernel that changes are applied to and compared with."""
        if context.broken is not None and self._mends(context):
            return context.broken.candidate
        ordered = in_order(context, self.needs)
        return ordered[0].candidate if ordered else None

    def _strategies(self, context: Context) -> list[int]:
        return [known.seq for known in context.insights if known.insight.kind is InsightKind.STRATEGY]

    def _read_kernel(self, text: str, prompt: Prompt) -> Draft:
        context, settings, base = prompt.context, self._template.settings, self._base(prompt.context)
        wanted = ReplyExpectation(
            language=context.language,
            signature=context.task.signature,
            original=base.source if base else None,
            whole=settings.reply is not ReplyKind.EDITS,
            edits=settings.reply is not ReplyKind.CODE,
        )
        source = read_kernel(text, wanted)
        self._check_new(Candidate(source, context.language), context)
        if base is not None:
            if changed := protected_change(base.source, source):
                raise UnreadableReply(f"it changes text outside of the EVOLVE blocks: {one_line(changed)}")
            _check_demand(settings.demand, source, base.source)
        _, outside = split(text)
        return Draft(
            source=source,
            parents=self._lineage(context),
            rationale=self._rationale(read_idea(outside), context),
            predicted_speedup=read_prediction(outside) if context.parents else None,
            inspirations=prompt.inspirations,
            insights=prompt.insights + prompt.strategies,
        )

    def _check_new(self, candidate: Candidate, context: Context) -> None:
        shown: tuple[Elite, ...] = (*context.parents, *context.inspirations)
        if candidate.id in {elite.candidate.id for elite in shown}:
            raise UnreadableReply(f"the kernel in the reply is {candidate.id}, which was shown to the model")
        if candidate.id in context.known:
            raise UnreadableReply(f"the kernel in the reply is {candidate.id}, which was tried before")

    def _lineage(self, context: Context) -> tuple[str, ...]:
        named = tuple(elite.candidate.id for elite in in_order(context, self.needs))
        broken = (context.broken.candidate.id,) if context.broken is not None and self._mends(context) else ()
        return broken + named

    def _rationale(self, idea: str, context: Context) -> str:
        reason = idea.removeprefix(f"{self.name}:").strip()
        if ContextNeed.FOREIGN in self.needs and context.foreign:
            reason = f"from {context.foreign[0].language} {context.foreign[0].id}: {reason}"
        return f"{self.name}: {reason}"

    def _read_insights(self, text: str, prompt: Prompt) -> list[Insight]:
        """Return the insights of a reply, the first one last, so that it counts as the newest."""
        kind, base = InsightKind(self._template.settings.reply.value), self._base(prompt.context)
        notes = read_notes(text, most=self._plans if kind is InsightKind.STRATEGY else 1)
        return [
            Insight(
                kind=kind,
                title=note.title,
                text=note.text,
                candidate=base.id if base is not None and kind is not InsightKind.LESSON else "",
                predicted_speedup=None if kind is InsightKind.LESSON else note.predicted_speedup,
                sources=prompt.strategies if kind is InsightKind.STRATEGY else prompt.insights,
            )
            for note in reversed(notes)
        ]


def _asked_look(text: str, context: Context) -> LookKind | None:
    """Return the look that a reply asks for, of those on offer."""
    wish = labelled(text, "LOOK").lower()
    return next((kind for kind in context.looks if wish == kind), None)


def _check_demand(demand: TemplateNeed, source: str, before: str) -> None:
    """Raise `UnreadableReply` where a kernel does not meet the demand of its operator."""
    if demand is TemplateNeed.MORE_TUNABLES:
        try:
            names, known = read_tunables(source).values.keys(), read_tunables(before).values.keys()
        except ValueError as error:
            raise UnreadableReply(f"the tunables cannot be used: {error}") from None
        if not names - known:
            raise UnreadableReply("no number became a tunable that was none before")
    if demand is TemplateNeed.SIMPLER:
        after_words, before_words = len(source.split()), len(before.split())
        if after_words >= before_words:
            raise UnreadableReply(
                f"the kernel did not become simpler: {before_words} words before, {after_words} after"
            )


def _references(sections: Sequence[PromptSection], name: str, kind: type[T]) -> tuple[T, ...]:
    return tuple(s.reference for s in sections if s.name == name and isinstance(s.reference, kind))


def _sum(usage: Usage, reply: Reply, *, first: bool) -> Usage:
    more = reply.usage
    return Usage(
        model=(reply.model or more.model) if first else usage.model,
        prompt_tokens=usage.prompt_tokens + more.prompt_tokens,
        completion_tokens=usage.completion_tokens + more.completion_tokens,
        cost_usd=usage.cost_usd + more.cost_usd,
        duration_s=usage.duration_s + more.duration_s,
    )
