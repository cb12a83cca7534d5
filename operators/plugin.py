"""Operators of a user's own: default declarations, and the protocol of earlier versions."""

from collections.abc import Collection
from typing import Any

from evokernel.config.registry import require
from evokernel.records.fitness import Elite
from evokernel.records.step import Answer, Context, ContextNeed, OperatorKind, Prompt

_FURTHER_MEMBERS = {OperatorKind.MODEL: ("prompt", "read"), OperatorKind.CROSSOVER: ("suits",)}


class PluginOperator:
    """An operator of a user's own with every declaration that the engine reads.

    A class without a `kind` follows the protocol of earlier versions: `wants`, `suits` and `tuner` give its kind, its
    `prompt` returns messages, and its `read` takes the context.

    Args:
        operator: an object of the class that a config names.
        name: its name in the config, under which results and exhausted parents are kept.

    Raises:
        ConfigError: it lacks what its kind needs.
    """

    def __init__(self, operator: Any, *, name: str) -> None:
        self.name = name
        self.parents: int = operator.parents
        kind: Any = getattr(operator, "kind", None)
        self._declared = kind in tuple(OperatorKind)  # an older class may have a `kind` that means something else
        self.kind = OperatorKind(kind) if self._declared else _kind_by_attributes(operator)
        require(operator, _FURTHER_MEMBERS.get(self.kind, ()), name, "operator")
        self.needs: frozenset[ContextNeed] = frozenset(getattr(operator, "needs", getattr(operator, "wants", ())))
        self.role: str = getattr(operator, "role", "")
        self._operator = operator

    def supports(self, language: str) -> bool:
        """Say whether it works on a language; without a `supports` of its own it works on all."""
        return bool(getattr(self._operator, "supports", lambda _: True)(language))

    def suits(self, first: Elite, second: Elite, *, known: Collection[str]) -> bool:
        """Say whether a crossover of two parents can give a candidate whose id is not known."""
        return bool(self._operator.suits(first, second, known=known))

    def prompt(self, context: Context) -> Prompt:
        """Return the prompt for a model."""
        prompt = self._operator.prompt(context)
        return prompt if self._declared else Prompt(tuple(prompt), context)

    def read(self, reply: str, prompt: Prompt) -> Answer:
        """Return the answer in a reply."""
        answer: Answer = self._operator.read(reply, prompt if self._declared else prompt.context)
        return answer

    async def propose(self, context: Context) -> Answer | None:
        """Return an answer, or None where it has nothing to offer."""
        answer: Answer | None = await self._operator.propose(context)
        return answer


def _kind_by_attributes(operator: Any) -> OperatorKind:
    if getattr(operator, "wants", None) is not None:
        return OperatorKind.MODEL
    if getattr(operator, "suits", None) is not None:
        return OperatorKind.CROSSOVER
    return OperatorKind.TUNER if getattr(operator, "tuner", False) else OperatorKind.RULE
