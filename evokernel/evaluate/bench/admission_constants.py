"""Constants of a task, each left out or doubled in turn: a task shows what its checks would not notice.

Constants are the scalars of the signature, and the numbers that the reference hands to torch's operations: the epsilon
of a normalisation, a scale, the end of a clamp.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evokernel.evaluate.bench.admission_variants import AdmissionVariant, Answers, attempt
from evokernel.evaluate.numerics.correctness import judge_output
from evokernel.evaluate.numerics.dispatch import EagerMode

_MOST = 32
"""Most constants of a reference that are tried."""
_SIZES = ("int", "SymInt")
_CREATES = ("arange", "full", "zeros", "ones", "empty", "linspace", "eye")


@dataclass(frozen=True, slots=True)
class TaskConstant:
    """A number that a kernel needs: a scalar of the signature, or one in the reference."""

    name: str
    """The scalar's name, or the operation's."""
    argument: str
    """The operation's argument; empty for a scalar."""
    value: float
    """Its value."""

    def __str__(self) -> str:
        return f"{self.argument} = {self.value:g} of {self.name}" if self.argument else f"{self.name} = {self.value:g}"

    @property
    def others(self) -> Mapping[str, float]:
        """Wrong values, by what is done to the constant."""
        if not math.isfinite(self.value):
            return {"left out": 0.0}
        return {"left out": 0.0, "doubled": 2 * self.value} if self.value else {"replaced by 1": 1.0}


def constants_of(case: AdmissionVariant) -> list[TaskConstant]:
    """Return the constants that a call of the reference meets, scalars first. Raises `TaskError`."""
    dims = case.workload.dims
    scalars = [each.name for each in case.task.signature.scalars if each.dtype != "int64"]
    found = [TaskConstant(name, "", float(dims[name])) for name in scalars]
    with _Constants() as seen:
        attempt(case.task, case.workload, case.inputs)
    # a scalar reaches operations, too; a size among the numbers is no constant
    known = [*dims.values()]
    return found + [each for each in seen.found if not any(_close(each.value, value) for value in known)][:_MOST]


def unnoticed(case: AdmissionVariant, constant: TaskConstant, wrongs: Sequence[str]) -> list[str]:
    """Return those changes of a constant whose results pass this case's check."""
    kept = []
    for wrong in wrongs:
        answer = _changed(case, constant, constant.others[wrong])
        if answer is not None and judge_output(case.expected, answer) is None:
            kept.append(wrong)
    return kept


def _changed(case: AdmissionVariant, constant: TaskConstant, value: float) -> Answers | None:
    if not constant.argument:
        workload = replace(case.workload, dims={**case.workload.dims, constant.name: value})
        return attempt(case.task, workload, case.inputs)
    with _Constants(constant, value):
        return attempt(case.task, case.workload, case.inputs)


def _close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-6)


class _Constants(EagerMode):
    """Notes the numbers that operations get, or replaces one of them."""

    def __init__(self, changed: TaskConstant | None = None, value: float = 0.0) -> None:
        super().__init__()
        self.found: list[TaskConstant] = []
        self._changed, self._value = changed, value

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        operation, named = func.overloadpacket.__name__, dict(kwargs or {})
        if any(operation.startswith(name) for name in _CREATES):
            return func(*args, **named)
        wanted = func._schema.arguments
        given = [self._see(operation, wanted[place], number) for place, number in enumerate(args)]
        by_name = {each.name: each for each in wanted}
        named = {name: self._see(operation, by_name[name], number) for name, number in named.items()}
        return func(*given, **named)

    def _see(self, operation: str, argument: Any, number: Any) -> Any:
        kind = str(argument.type).removeprefix("Optional[").removesuffix("]")
        if not isinstance(number, (int, float)) or isinstance(number, bool) or kind in _SIZES:
            return number
        found = TaskConstant(operation, argument.name, float(number))
        if found not in self.found:
            self.found.append(found)
        return type(number)(self._value) if found == self._changed else number
