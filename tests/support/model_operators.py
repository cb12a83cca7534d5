"""Operators that ask a model, for the toy language: a reply is values, words, or nonsense."""

from dataclasses import replace

from evokernel.protocols import LanguageModel, ModelOperator
from evokernel.records.llm import Insight, InsightKind, Message, ModelRequest
from evokernel.records.step import (
    Answer,
    Context,
    ContextNeed,
    Draft,
    InsightReply,
    OperatorKind,
    Prompt,
    UnusableReply,
)
from evokernel.source.tunables import with_values
from tests.support.fakes import TOY


class ToyModelOperator(ModelOperator):
    """`A=8 B=4` makes a kernel with these values, `strategy: words` an insight; all else is of no use."""

    kind = OperatorKind.MODEL
    role = "code"

    def __init__(self, name: str, model: LanguageModel, *needs: ContextNeed, parents: int = 1) -> None:
        self.name = name
        self.parents = parents
        self.needs = frozenset(needs)
        self.seen: list[Context] = []
        self._model = model

    def prompt(self, context: Context) -> Prompt:
        text = f"{self.name}: improve {' '.join(e.candidate.id for e in context.parents)}"
        return Prompt((Message("user", text),), context)

    def read(self, reply: str, prompt: Prompt) -> Answer:
        context, selection = prompt.context, prompt.context.selection
        assert selection is not None
        kind, separator, text = reply.partition(": ")
        if separator:
            candidate = selection.origin.parents[0] if selection.origin.parents else ""
            return InsightReply(Insight(InsightKind(kind), text, text, candidate))
        try:
            values = {name: int(value) for name, value in (word.split("=") for word in reply.split())}
        except ValueError:
            return UnusableReply("no values in the reply")
        base = context.parents[0].candidate.source if context.parents else TOY
        return Draft(
            source=with_values(base, values),
            parents=selection.origin.parents,
            rationale=f"{self.name}: {reply}",
            predicted_speedup=1.5,
            insights=selection.insights,
        )

    async def propose(self, context: Context) -> Answer | None:
        self.seen.append(context)
        assert context.selection is not None
        prompt = self.prompt(context)
        reply = await self._model.complete(ModelRequest(context.selection.origin, 0, self.role, prompt.messages))
        return replace(self.read(reply.text, prompt), usage=reply.usage)
