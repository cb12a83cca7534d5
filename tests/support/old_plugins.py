"""Operators as users wrote them for earlier versions, without declarations: one class of each sort."""

from collections.abc import Collection

from evokernel.records.fitness import Elite
from evokernel.records.llm import Message
from evokernel.records.step import Answer, Context, ContextNeed, Draft, UnusableReply
from evokernel.source.tunables import with_values


def _draft(context: Context, source: str) -> Draft:
    parents = tuple(elite.candidate.id for elite in context.parents)
    return Draft(source, parents, f"plugin: {context.step}")


class Append:
    """Adds a line that no other step adds."""

    name, parents, tuner = "append", 1, False

    async def propose(self, context: Context) -> Draft | None:
        return _draft(context, f"{context.parents[0].candidate.source}int n{context.step};\n")


class Eight:
    """Proposes one value of a tunable, and has nothing else to offer."""

    name, parents, tuner = "eight", 1, True

    async def propose(self, context: Context) -> Draft | None:
        source = with_values(context.parents[0].candidate.source, {"A": 8})
        return None if source == context.parents[0].candidate.source else _draft(context, source)


class Join:
    """Puts the last line of one kernel behind another."""

    name, parents, tuner = "join", 2, False

    def suits(self, first: Elite, second: Elite, *, known: Collection[str]) -> bool:
        return len(second.candidate.source) > len(first.candidate.source)

    async def propose(self, context: Context) -> Draft | None:
        first, second = (elite.candidate.source for elite in context.parents)
        return _draft(context, f"{first}{second.splitlines()[-1]} // {context.step}\n")


class Ask:
    """Asks a model of its own, which knows one answer."""

    name, parents, tuner = "ask", 1, False
    role = "code"
    wants = frozenset({ContextNeed.STRANGERS})

    def prompt(self, context: Context) -> tuple[Message, ...]:
        return (Message("user", f"change {context.parents[0].candidate.id}"),)

    def read(self, reply: str, context: Context) -> Answer:
        if reply != "A=2":
            return UnusableReply(f"no value in {reply}")
        source = with_values(context.parents[0].candidate.source, {"A": 2})
        return Draft(f"{source}int asked{context.step};\n", (context.parents[0].candidate.id,), "ask: A")

    async def propose(self, context: Context) -> Answer | None:
        return self.read("A=2", context)
