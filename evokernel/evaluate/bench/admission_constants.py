"""Constants of a task, each left out or doubled in turn: a task shows what its checks would not notice.

Constants are the scalars of the signature, and the numbers that the reference hands to torch's operations: the epsilon
of a normalisation, a scale, the end of a clamp. Operations that exist for rare inputs are replaced by plain ones, too.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from evokernel.evaluate.bench.admission_variants import AdmissionVariant, Answers, attempt
from evokernel.evaluate.numerics.correctness import judge_output
from evokernel.evaluate.numerics.dispatch import EagerMode
from evokernel.evaluate.numerics.inputs import bound_of
from evokernel.task import ABOVE, APART, BELOW, COARSE, INFINITE, LARGE, MODEST, NAN, SCALED, SHIFTED, TELLING, ZEROS

_MOST = 32
"""Most constants of a reference that are tried."""
_SIZES = ("int", "SymInt")
_NOT_IN_RESULTS = ("momentum",)
"""Arguments that change running statistics alone."""
_CREATES = ("arange", "full", "zeros", "ones", "empty", "linspace", "eye")


_COMPARES = ("eq", "ne")
_SUMS = ("sum", "cumsum")
_PRODUCTS = ("mul", "square", "dot", "add", "sub", "rsub", "__lshift__", "bitwise_left_shift")
_DECIDES = ("gt", "ge", "lt", "le", *_COMPARES)
_RANKS = ("argmax", "argmin", "max", "min", "sort")
_SMALL, _SCALED, _SHIFTED, _LARGE = ("normal/1e4",), (*SCALED,), (*SHIFTED,), (*LARGE, APART)
_NEAR = 0.25
"""What is near 0 has a result of its own size there, and a rough function adds numbers of about 1 on the way."""
_Plain = Callable[..., Any]


def _in_half(made_by: _Plain) -> _Plain:
    return lambda *args, **named: made_by(*args, **named).to(torch.int32).to(torch.int64)


def _elu(x: Any, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Any:
    return torch.where(x > 0, x * scale, ((x * input_scale).exp() - 1) * (alpha * scale))


def _near_zero(exact: _Plain, rough: _Plain) -> _Plain:
    return lambda x: torch.where(x.abs() < _NEAR, rough(x), exact(x))


def _one(x: Any) -> Any:
    return torch.ones_like(x)


def _other_angle(x: Any) -> Any:
    return torch.copysign(math.pi / 2 - (1 / x.abs()).atan(), x)


def _softplus(x: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    return torch.where(x * beta > threshold, x, ((x * beta).exp() + 1).log() / beta)


def _log_sigmoid(x: Any) -> Any:
    return -((-x).exp() + 1).log(), x.new_empty(0)


def _rounded(x: Any, **decimals: int) -> Any:
    return x.round(**decimals) if decimals else (x + torch.where(x < 0, -0.5, 0.5)).trunc()


def _with_sign(x: Any, y: Any) -> Any:
    return torch.where(torch.as_tensor(y) < 0, -x.abs(), x.abs())


def _half_tanh(x: Any) -> Any:
    return 0.5 + 0.5 * (0.5 * x).tanh()


def _half_erf(x: Any) -> Any:
    return 0.5 + 0.5 * (x * math.sqrt(0.5)).erf()


def _of_two_zeros(rank: _Plain) -> _Plain:
    """Return a ranking by which -0.0 comes before 0.0, as bits do."""

    def ranked(x: Any, *rest: Any, **named: Any) -> Any:
        least = torch.finfo(x.dtype).tiny
        found = rank(torch.where((x == 0) & x.signbit(), -least, x), *rest, **named)
        if not isinstance(found, tuple):
            return found if not found.is_floating_point() else torch.where(found == -least, -0.0, found)
        return torch.where(found[0] == -least, -0.0, found[0]), *found[1:]

    return ranked


def _other_side(search: _Plain) -> _Plain:
    def searched(left: Any, right: Any, **named: Any) -> Any:
        side = named.pop("right", False) or named.pop("side", None) == "right"
        return search(left, right, right=not side, **named)

    return searched


def _never(x: Any, *_: Any) -> Any:
    return torch.zeros_like(x, dtype=torch.bool)


_aten = torch.ops.aten
_PLAIN: Mapping[str, tuple[str, _Plain, tuple[str, ...]]] = {
    "log1p": ("log(1 + x)", lambda x: (x + 1).log(), _SCALED),
    "expm1": ("exp(x) - 1", lambda x: x.exp() - 1, _SCALED),
    "tanh": ("1 - 2 / (exp(2 * x) + 1)", lambda x: 1 - 2 / ((2 * x).exp() + 1), _SMALL),
    "elu": ("one of exp(x) - 1", _elu, _SMALL),
    "erf": ("1 - erfc(x) near 0", _near_zero(_aten.erf, lambda x: 1 - x.erfc()), _SMALL),
    "sinh": ("(exp(x) - exp(-x)) / 2 near 0", _near_zero(_aten.sinh, lambda x: (x.exp() - (-x).exp()) / 2), _SMALL),
    "asinh": (
        "log(x + sqrt(x * x + 1)) near 0",
        _near_zero(_aten.asinh, lambda x: (x + x.hypot(_one(x))).log()),
        _SMALL,
    ),
    "atanh": (
        "log((1 + x) / (1 - x)) / 2 near 0",
        _near_zero(_aten.atanh, lambda x: ((1 + x) / (1 - x)).log() / 2),
        _SMALL,
    ),
    "atan": ("a right angle less atan(1 / x) near 0", _near_zero(_aten.atan, _other_angle), _SMALL),
    "erfc": ("1 - erf(x)", lambda x: 1 - x.erf(), ("normal+4",)),
    "special_ndtr": ("one of 1 + erf(x)", _half_erf, _SHIFTED),
    "special_log_ndtr": ("the logarithm of one of 1 + erf(x)", lambda x: _half_erf(x).log(), _SHIFTED),
    "sigmoid": ("one of 1 + tanh(x / 2)", _half_tanh, _SHIFTED),
    "silu": ("one of 1 + tanh(x / 2)", lambda x: x * _half_tanh(x), _SHIFTED),
    "softplus": ("log(1 + exp(x))", _softplus, _SHIFTED),
    "log_sigmoid_forward": ("-log(1 + exp(-x))", _log_sigmoid, _SHIFTED),
    "hypot": ("sqrt(x * x + y * y)", lambda x, y: (x * x + y * y).sqrt(), _SCALED),
    "nan_to_num": ("x", lambda x, *_, **__: x.clone(), (NAN, INFINITE)),
    "isnan": ("false", _never, (NAN,)),
    "nansum": ("sum", _aten.sum, (NAN,)),
    "nanmedian": ("median", _aten.median, (NAN,)),
    "fmax": ("maximum", torch.maximum, (NAN,)),
    "fmin": ("minimum", torch.minimum, (NAN,)),
    "isposinf": ("false", _never, (ABOVE,)),
    "isneginf": ("false", _never, (BELOW,)),
    "signbit": ("x < 0", lambda x: x < 0, (COARSE,)),
    "copysign": ("one that takes -0.0 for 0", _with_sign, (COARSE,)),
    "floor": ("ceil(x) - 1", lambda x: x.ceil() - 1, (COARSE,)),
    "ceil": ("floor(x) + 1", lambda x: x.floor() + 1, (COARSE,)),
    "atan2": ("one that takes -0.0 for 0", lambda y, x: torch.atan2(y + 0.0, x), (COARSE,)),
    "searchsorted": ("one of the other side", _other_side(torch.searchsorted), (COARSE,)),
    "bucketize": ("one of the other side", _other_side(torch.bucketize), (COARSE,)),
    "round": ("one that rounds halves away from 0", _rounded, (COARSE,)),
    **{name: ("one for which -0.0 is below 0.0", _of_two_zeros(getattr(_aten, name)), (ZEROS,)) for name in _RANKS},
    "gt": ("ge", _aten.ge, (COARSE,)),
    "ge": ("gt", _aten.gt, (COARSE,)),
    "lt": ("le", _aten.le, (COARSE,)),
    "le": ("lt", _aten.lt, (COARSE,)),
    "eq": ("false", _never, (COARSE,)),
    "ne": ("true", lambda x, *_: torch.ones_like(x, dtype=torch.bool), (COARSE,)),
}
"""What operations become where a kernel ignores why they were called: the name of that, a function, and the
distributions that may show it.
"""


def _hard_sigmoid(x: Any) -> Any:
    return (x / 6 + 0.5).clamp(0, 1)


def _clamped(x: Any) -> Any:
    return x.clamp(-1, 1)


def _hard_elu(x: Any, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Any:
    return torch.where(x > 0, x, (x * input_scale).clamp(-1, 0) * alpha) * scale


_ROUGH: Mapping[str, tuple[str, _Plain]] = {
    "gelu": ("x * sigmoid(1.702 * x)", lambda x, **_: x * (1.702 * x).sigmoid()),
    "silu": ("x * clamp(x / 6 + 0.5, 0, 1)", lambda x: x * _hard_sigmoid(x)),
    "mish": ("x * clamp(x / 6 + 0.5, 0, 1)", lambda x: x * _hard_sigmoid(x)),
    "sigmoid": ("clamp(x / 6 + 0.5, 0, 1)", _hard_sigmoid),
    "tanh": ("clamp(x, -1, 1)", _clamped),
    "erf": ("clamp(x, -1, 1)", _clamped),
    "elu": ("max(x, -1)", _hard_elu),
    "softplus": ("max(x, 0)", lambda x, *_: x.clamp(min=0)),
    "log_sigmoid_forward": ("min(x, 0)", lambda x: (x.clamp(max=0), x.new_empty(0))),
}
"""What is nearly the same on large numbers, as sums of thousands of products of ordinary ones are."""


@dataclass(frozen=True, slots=True)
class TaskOperation:
    """An operation of the reference that has a plainer one, which is right on most inputs."""

    name: str
    """The operation's."""
    plain: str
    """What stands in for it."""
    told_by: tuple[str, ...]
    """The distributions that may tell it from that."""

    def __str__(self) -> str:
        return self.name

    @property
    def is_rough(self) -> bool:
        """Say whether the plainer one is right on large numbers alone."""
        return self.told_by == (MODEST,)

    @property
    def others(self) -> Mapping[str, float]:
        """As those of a constant; the number says nothing."""
        return {f"taken for {self.plain}": 0.0}


@dataclass(frozen=True, slots=True)
class TaskConstant:
    """A number that a kernel needs: a scalar of the signature, or one in the reference."""

    name: str
    """The scalar's name, or the operation's."""
    argument: str
    """The operation's argument; empty for a scalar."""
    value: float
    """Its value."""

    @property
    def told_by(self) -> tuple[str, ...]:
        """The distributions that may tell it from other numbers."""
        return TELLING

    def __str__(self) -> str:
        return f"{self.argument} = {self.value:g} of {self.name}" if self.argument else f"{self.name} = {self.value:g}"

    @property
    def others(self) -> Mapping[str, float]:
        """Wrong values, by what is done to the constant."""
        if not math.isfinite(self.value):
            # in a comparison it asks for infinite inputs
            return {"never met": math.nan} if self.name in _COMPARES else {"left out": 0.0}
        wrong = {"left out": 0.0, "doubled": 2 * self.value} if self.value else {"replaced by 1": 1.0}
        # hidden shapes have smaller scalars: one that a kernel has in its text is larger than due
        return wrong if self.argument else {**wrong, "a third larger": self.value / 0.75}


Changeable = TaskConstant | TaskOperation
"""What of a reference is changed to see who notices."""


def constants_of(case: AdmissionVariant) -> list[Changeable]:
    """Return the constants and operations that a call of the reference meets, scalars first. Raises `TaskError`."""
    dims = case.workload.dims
    scalars = [each.name for each in case.task.signature.scalars if each.dtype != "int64"]
    found = [TaskConstant(name, "", float(dims[name])) for name in scalars]
    with _Constants() as seen:
        attempt(case.task, case.workload, case.inputs)
    # a scalar reaches operations, too; a size among the numbers is no constant
    known = [*dims.values()]
    found += [each for each in seen.found if not any(_close(each.value, value) for value in known)][:_MOST]
    inputs = [each for each in case.task.signature.inputs if each.dtype == "int32"]
    unbounded = any(bound_of(case.task, case.workload, each) is None for each in inputs)
    return [*found, *(each for each in seen.operations if unbounded or each.told_by is not _LARGE)]


def unnoticed(case: AdmissionVariant, constant: Changeable, wrongs: Sequence[str]) -> list[str]:
    """Return those changes of a constant whose results pass this case's check."""
    kept = []
    for wrong in wrongs:
        answer = _changed(case, constant, constant.others[wrong])
        if answer is not None and judge_output(case.expected, answer) is None:
            kept.append(wrong)
    return kept


def _changed(case: AdmissionVariant, constant: Changeable, value: float) -> Answers | None:
    if isinstance(constant, TaskConstant) and not constant.argument:
        workload = replace(case.workload, dims={**case.workload.dims, constant.name: value})
        return attempt(case.task, workload, case.inputs)
    with _Constants(constant, value):
        return attempt(case.task, case.workload, case.inputs)


def _close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-6)


class _Constants(EagerMode):
    """Notes the numbers that operations get, or replaces one of them."""

    def __init__(self, changed: Changeable | None = None, value: float = 0.0) -> None:
        super().__init__()
        self.found: list[TaskConstant] = []
        self.operations: list[TaskOperation] = []
        self._changed, self._value = changed, value

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        operation, named = func.overloadpacket.__name__, dict(kwargs or {})
        counts = operation == "add_" and not args[0].is_floating_point() and not args[0].ndim  # calls, as of a norm
        if counts or any(operation.startswith(name) for name in _CREATES):
            return func(*args, **named)
        wanted = func._schema.arguments
        given = [self._see(operation, wanted[place], number) for place, number in enumerate(args)]
        by_name = {each.name: each for each in wanted}
        named = {name: self._see(operation, by_name[name], number) for name, number in named.items()}
        return self._plain(operation, func, given, dtype=named.get("dtype"))(*given, **named)

    def _plain(self, operation: str, func: Any, given: Sequence[Any], *, dtype: Any) -> _Plain:
        """Note an operation that has a plainer one; return the one to call."""
        numbers = [each for each in given if isinstance(each, torch.Tensor)]
        plain, does, told_by = _PLAIN.get(operation, ("", func, ()))
        if operation in (*_DECIDES, *_RANKS) and not (numbers and numbers[0].is_floating_point()):
            plain = ""  # whole numbers tie everywhere, and have one zero
        elif operation in _COMPARES and given[0] is given[1]:  # NaN alone is no number that equals itself
            plain, does, told_by = (*_PLAIN["ne" if operation == "eq" else "eq"][:2], (NAN,))
        elif dtype in (None, torch.int64) and numbers:
            kinds = {each.dtype for each in numbers}
            if (operation in _SUMS and kinds == {torch.int32}) or (operation in _PRODUCTS and torch.int64 in kinds):
                plain, does, told_by = "one of 32 bits", _in_half(func), _LARGE
        chosen = func
        for name, other, tellers in ((plain, does, told_by), (*_ROUGH.get(operation, ("", func)), (MODEST,))):
            found = TaskOperation(operation, name, tellers)
            if name and found not in self.operations:
                self.operations.append(found)
            chosen = other if found == self._changed else chosen
        return chosen  # type: ignore[no-any-return]

    def _see(self, operation: str, argument: Any, number: Any) -> Any:
        kind = str(argument.type).removeprefix("Optional[").removesuffix("]")
        if argument.name in _NOT_IN_RESULTS:
            return number
        if not isinstance(number, (int, float)) or isinstance(number, bool) or kind in _SIZES:
            return number
        found = TaskConstant(operation, argument.name, float(number))
        if found not in self.found:
            self.found.append(found)
        return type(number)(self._value) if found == self._changed else number
