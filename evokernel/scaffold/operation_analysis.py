"""Operations of a reference over its dimensions: their number, the longest sum, and a trace for plain kernels."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import prod
from typing import Any

from evokernel.errors import TaskError
from evokernel.scaffold.loops.index_arithmetic import missing_parts
from evokernel.scaffold.loops.trace import Traced, extents, flop_terms, reduction_terms, settled, to_graph, trace
from evokernel.scaffold.operation.dimensions import (
    Layout,
    in_steps_of_two,
    shapes_at,
    with_a_pair_as_one,
    with_one_size_fixed,
)
from evokernel.scaffold.operation.sizes import FIRST, SECOND, NotGeneral, NotGeneralSize, SymbolicSizes, in_python
from evokernel.scaffold.operation.trial import counted_flops, operations_of
from evokernel.scaffold.operation.user_operation import UserOperation
from evokernel.scaffold.workloads import dims_of

_MOST_TRACED = 20_000
"""Operations of torch in all steps that a reference takes in Python which are written down."""

_ROUND, _BESIDE = 64, (1, 63)
"""Beside multiples of this the halves of halves are all odd: of the first those rounded up, of the second down."""


@dataclass
class OperationAnalysis:
    """An operation as one trace shows it, with sizes as expressions over the dimensions."""

    flops: str
    """Floating-point operations."""
    reduction: str
    """Lengths of the sums behind an element, added up."""
    largest: tuple[tuple[int, ...], ...] = ()
    """Shapes of the trace."""
    exact: bool = False
    """Integers in, and all results are exact."""
    traced: Traced | None = None
    """The operations for plain kernels; None where some have no plain loop."""
    why: str = ""
    """Reason for that; else empty."""
    unruly: bool = False
    """Some size or number follows no simple rule."""

    def missing(self, dims: Mapping[str, int]) -> int:
        """Return the number of parts of tensors that these dimensions are too small for; 0 where nobody knows."""
        return missing_parts(self.traced.outputs, self.traced.sizes, dims) if self.traced else 0


def analyse(
    subject: UserOperation, layout: Layout, *, own: Sequence[Mapping[str, tuple[int, ...]]] = ()
) -> tuple[Layout, OperationAnalysis]:
    """Return what an operation computes, and the layout for which that holds.

    That is the given one, or one in steps of two of a dimension: where only there all sizes follow simple rules, or
    where a width is cut in halves, as in a rotary embedding. Before, two dimensions that are equal in the example are
    one, where a size is the difference of both, as where one is padded to the other. Or else one dimension stays as it
    is, where all numbers follow simple rules only then, as `base ** (d / (d - 2))` does not. `own` are shapes by input
    that the layout must have room for.
    """
    layout, made = _analyse(subject, layout)
    others = [with_a_pair_as_one(subject, layout)] * made.unruly
    if made.unruly or layout.sizes.cut_in_halves:
        others.append(in_steps_of_two(subject, layout))
    if made.unruly and made.largest and len(layout.dimensions) > 1:
        others.append(with_one_size_fixed(subject, layout))
    for each in chain.from_iterable(others):
        found, other = _analyse(subject, each)
        if not other.unruly and not found.sizes.cut_in_halves and _has_room(found, own):
            return found, other
    return layout, made


def _example(subject: UserOperation) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in subject.inputs.items()}


def _has_room(layout: Layout, own: Sequence[Mapping[str, tuple[int, ...]]]) -> bool:
    try:
        for shapes in own:
            dims_of(layout, shapes)
    except TaskError:
        return False
    return True


def _analyse(subject: UserOperation, layout: Layout) -> tuple[Layout, OperationAnalysis]:
    """Return the analysis, and the layout with sizes that hold for what is computed on the way."""
    pairs = {name: (list(tensor.shape), list(tensor.shape)) for name, tensor in subject.inputs.items()}
    for place, dimension in enumerate(layout.dimensions):
        for (name, axis), unit in zip(dimension.axes, dimension.units, strict=True):
            pairs[name][0][axis], pairs[name][1][axis] = unit * FIRST[place], unit * SECOND[place]
    # traced as the inputs lie in memory, so that a plain kernel finds every element
    orders = {name: subject.orders.get(name, tuple(range(tensor.ndim))) for name, tensor in subject.inputs.items()}

    def lying(name: str, shape: list[int]) -> tuple[int, ...]:
        return tuple(shape[axis] for axis in orders[name])

    shapes = {name: (lying(name, first), lying(name, second)) for name, (first, second) in pairs.items()}

    def call(inputs: dict[str, Any]) -> Any:
        back = {name: [order.index(axis) for axis in range(len(order))] for name, order in subject.orders.items()}
        return subject.call({name: each.permute(back[name]) if name in back else each for name, each in inputs.items()})

    try:
        if layout.stepped and (count := operations_of(subject, _example(subject))) > _MOST_TRACED:
            raise NotGeneral(f"its steps in Python are {count} operations, too many to be written down")
        dtypes = {name: tensor.dtype for name, tensor in subject.inputs.items()}
        first, second = trace(call, shapes, layout.sizes, dtypes=dtypes)
        further = [
            (dims, {name: lying(name, [*shape]) for name, shape in shapes_at(layout, dims).items()})
            for more in _BESIDE
            for dims in [{name: size // _ROUND * _ROUND + more for name, size in layout.sizes.first.items()}]
        ]
        layout = replace(layout, sizes=settled((first, second), layout.sizes, call, further, dtypes=dtypes))
    except NotGeneral as error:
        whole = max(layout.inputs.values(), key=len)
        unruly = isinstance(error, NotGeneralSize)
        estimate = _estimate(subject, layout, whole)
        return layout, OperationAnalysis(flops=estimate, reduction=str(whole[-1]), why=str(error), unruly=unruly)
    made = OperationAnalysis(
        _sum(flop_terms(first), layout.sizes), _lengths(reduction_terms(first), layout), extents(first)
    )
    try:
        made.traced = to_graph(first, second, layout.sizes)
        made.exact = made.traced.exact_on_integers
    except NotGeneral as error:
        made.why, made.unruly = str(error), isinstance(error, NotGeneralSize)
    return layout, made


def _estimate(subject: UserOperation, layout: Layout, whole: Sequence[str | int]) -> str:
    """Return the operations that the example takes, in proportion to each dimension, and those of one pass over it."""
    each = -(-counted_flops(subject) // prod(layout.example.values()))
    counted = " * ".join([str(each), *layout.example])
    return f"{counted} + " * bool(each) + " * ".join(f"({extent})" for extent in whole)


def _sum(terms: Iterable[tuple[int, tuple[int, ...]]], sizes: SymbolicSizes) -> str:
    """Return the sum of products as an expression, the longest first."""
    total: Counter[tuple[str, ...]] = Counter()
    for count, each in terms:
        number, names = sizes.terms(each)
        total[names] += count * number
    ordered = sorted(total.items(), key=lambda item: (-len(item[0]), item[0]))
    parts = [" * ".join([*([str(number)] if number != 1 or not names else []), *names]) for names, number in ordered]
    return in_python(" + ".join(parts)) or "1"


def _lengths(sums: Iterable[tuple[int, ...]], layout: Layout) -> str:
    """Return the lengths of all sums as one expression: sums may follow each other, and each can be the longest."""

    def length(shape: tuple[int, ...]) -> int:
        return prod(layout.sizes.at(extent, layout.example) for extent in shape)

    ordered = sorted(sums, key=length, reverse=True) or [()]
    products = list(dict.fromkeys(in_python(layout.sizes.product(each)) for each in ordered))
    numbers = [each for each in products if each.isdecimal()]
    return " + ".join(each for each in products if each not in numbers[1:])
