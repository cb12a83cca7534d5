"""Dimensions of a reference, found by trial: sizes that may vary get names, all others are constants."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, combinations
from typing import Any

from evokernel.errors import TaskError
from evokernel.scaffold.operation.axis_groups import (
    Axis,
    AxisGroup,
    Shapes,
    axis_sets,
    equal_axes,
    sets_in_proportion,
    shapes_with,
)
from evokernel.scaffold.operation.sizes import (
    FIRST,
    SECOND,
    NotGeneral,
    Quotient,
    SymbolicSizes,
    symbolic_shape,
    symbolic_strides,
)
from evokernel.scaffold.operation.trial import dtype_name, operations_of, outputs_of, runs
from evokernel.scaffold.operation.user_operation import UserOperation
from evokernel.source.expressions import evaluate

_MOST_TOGETHER = 6
"""Axes that are tried together, but for all of an extent."""
_FURTHER = tuple(range(1, 8))
"""What the dimensions of the first trace grow by for further shapes of outputs."""
_MOST_AXES = 24
"""Axes of one extent above which only those of arguments are tried."""
_MOST_WEIGHTS = 16
"""Weights of a module above which all of their sizes are constants."""
_MOST_OPERATIONS = 40_000
"""Operations of torch in a call of the reference, which takes a second for every ten thousand here."""
_MOST_REMOVED = 6
"""Sizes of which all sets are tried as constants."""
_BY_RANK = {1: ("N",), 2: ("M", "N"), 3: ("B", "M", "N"), 4: ("B", "C", "H", "W")}
_MORE_NAMES = ("K", "L", "P", "Q", "S", "T", "U", "V", "D", "E", "F", "G", "R", "X", "Y", "Z")


@dataclass(frozen=True)
class Dimension:
    """Axes that change together."""

    name: str
    axes: tuple[Axis, ...]
    """Input and axis of each."""
    units: tuple[int, ...]
    """Extent of each axis divided by the dimension."""
    example: int
    """Its value in the example."""

    @property
    def group(self) -> AxisGroup:
        """Its axes and their units."""
        return AxisGroup(self.axes, self.units)


@dataclass(frozen=True)
class Layout:
    """Shapes of inputs and outputs over dimensions; an extent is a number or an expression."""

    dimensions: tuple[Dimension, ...]
    inputs: Mapping[str, tuple[str | int, ...]]
    """Shapes by name."""
    outputs: tuple[tuple[str | int, ...], ...]
    """Shapes in the order of the outputs."""
    output_dtypes: tuple[str, ...]
    """Dtypes in the order of the outputs."""
    strides: Mapping[str, tuple[str | int, ...]]
    """Steps in elements of the inputs that are not row-major, by name."""
    sizes: SymbolicSizes
    """Made from two traces."""
    stepped: tuple[Axis, ...] = ()
    """Axes that stay as they are, since the reference takes a step in Python for each element."""

    @property
    def example(self) -> dict[str, int]:
        """Dimensions of the example, by name."""
        return {dimension.name: dimension.example for dimension in self.dimensions}


def derive_layout(subject: UserOperation) -> Layout:
    """Find the sizes that may vary, by trial, and the output shapes as expressions over them.

    Raises `TaskError` if the reference fails on its own example.
    """
    example = {name: tuple(tensor.shape) for name, tensor in subject.inputs.items()}
    result, count = outputs_of(subject, example), operations_of(subject, example)
    if count > _MOST_OPERATIONS:
        raise TaskError(
            f"{subject.name} takes steps in Python, {count} operations of torch for this example, and is tried on many "
            f"sizes: pass an example with fewer steps, of {_MOST_OPERATIONS} operations at most, or write the steps as "
            "operations on whole tensors"
        )
    found: list[AxisGroup] = []
    stepped: list[Axis] = []
    classes = _classes(subject, example)
    groups = (group for extent, axes in classes.items() for group in _groups(subject, example, axes, extent))
    for group in chain(groups, _in_proportion(subject, example, [*chain(*classes.values())], found)):
        if _steps_along(subject, example, group, count=count):
            stepped += group.axes
        elif len(found) < len(FIRST) and runs(subject, shapes_with(example, [*found, group], FIRST)):
            found.append(group)
    if not _is_general(subject, example, found, result):
        found = [_in_wider_steps(subject, example, each, result) for each in found]
    return replace(_most_general(subject, example, found, result), stepped=tuple(stepped))


def _most_general(subject: UserOperation, example: Shapes, found: Sequence[AxisGroup], result: Sequence[Any]) -> Layout:
    """Return the layout with as many of these sizes as simple rules for the outputs allow; the others are constants."""
    if len(found) > _MOST_REMOVED:  # too many to try all sets of them
        general: list[AxisGroup] = []
        for each in found:
            general += [each] * _is_general(subject, example, [*general, each], result)
        found = general
    for removed in range(len(found) + 1):
        for kept in combinations(found, len(found) - removed):
            with suppress(NotGeneral):
                return _layout(subject, example, _named(kept, example, result, subject), result)
    raise TaskError(f"the outputs of {subject.name} do not follow from the shapes of its inputs")


def layout_without(layout: Layout, subject: UserOperation) -> Layout:
    """Return the layout of an operation that has lost some inputs; found anew where a dimension was one of theirs.

    Raises `TaskError` as `derive_layout`.
    """
    if any(name not in subject.inputs for dimension in layout.dimensions for name, _ in dimension.axes):
        return derive_layout(subject)
    inputs = {name: shape for name, shape in layout.inputs.items() if name in subject.inputs}
    return replace(layout, inputs=inputs)


def with_equal_sizes_as_one(subject: UserOperation, layout: Layout, names: Collection[object] = ()) -> Layout:
    """Return the layout with dimensions that are equal in the example as one; the same where there is no such rule.

    With names only these become one. Raises `TaskError` as `derive_layout`.
    """
    groups: dict[tuple[frozenset[int], int, str], list[Dimension]] = {}
    for each in layout.dimensions:
        alone = each.name if names and each.name not in names else ""
        groups.setdefault((frozenset(each.units), each.example, alone), []).append(each)
    if len(groups) == len(layout.dimensions):
        return layout
    joined = tuple(
        replace(alike[0], axes=sum((each.axes for each in alike), ()), units=sum((each.units for each in alike), ()))
        for alike in groups.values()
    )
    example = {name: tuple(tensor.shape) for name, tensor in subject.inputs.items()}
    with suppress(NotGeneral):
        return replace(_layout(subject, example, joined, outputs_of(subject, example)), stepped=layout.stepped)
    return layout


def with_a_pair_as_one(subject: UserOperation, layout: Layout) -> Iterator[Layout]:
    """Yield the layout once for each two dimensions that are equal in the example, with these as one.

    Raises `TaskError` as `derive_layout`.
    """
    joined = (with_equal_sizes_as_one(subject, layout, pair) for pair in combinations(layout.example, 2))
    return (each for each in joined if len(each.example) < len(layout.example))


def with_one_size_fixed(subject: UserOperation, layout: Layout) -> Iterator[Layout]:
    """Yield the layout once without each dimension, whose axes stay as in the example.

    Raises `TaskError` as `derive_layout`.
    """
    example = {name: tuple(tensor.shape) for name, tensor in subject.inputs.items()}
    result = outputs_of(subject, example)
    for each in layout.dimensions[:_MOST_REMOVED]:
        with suppress(NotGeneral):
            rest = tuple(other for other in layout.dimensions if other is not each)
            yield replace(_layout(subject, example, rest, result), stepped=layout.stepped)


def in_steps_of_two(subject: UserOperation, layout: Layout) -> Iterator[Layout]:
    """Yield the layout once for each dimension that is even in the example, with twice its unit.

    Raises `TaskError` as `derive_layout`.
    """
    example = {name: tuple(tensor.shape) for name, tensor in subject.inputs.items()}
    result = outputs_of(subject, example)
    for place, each in enumerate(layout.dimensions[:_MOST_REMOVED]):
        if each.example % 2 == 0:
            halved = replace(each, units=each.group.in_steps(2).units, example=each.example // 2)
            with suppress(NotGeneral):
                yield _layout(
                    subject, example, (*layout.dimensions[:place], halved, *layout.dimensions[place + 1 :]), result
                )


def _is_general(subject: UserOperation, example: Shapes, found: Sequence[AxisGroup], result: Sequence[Any]) -> bool:
    """Say whether the outputs follow from the inputs by simple rules where these axes change."""
    with suppress(NotGeneral):
        return bool(_layout(subject, example, _named(found, example, result, subject), result))
    return False


def _in_wider_steps(subject: UserOperation, example: Shapes, group: AxisGroup, result: Sequence[Any]) -> AxisGroup:
    """Return axes with the smallest units at which the outputs follow from them by simple rules; as they are if none.

    The patches of an image are one dimension of the output, and both sides in whole patches make it a simple product.
    """
    count = group.count(example)
    wider = (group.in_steps(units) for units in range(1, count) if count % units == 0)
    return next((each for each in wider if _is_general(subject, example, [each], result)), group)


def _classes(subject: UserOperation, example: Shapes) -> dict[int, list[Axis]]:
    """Return the axes by extent; those of 1 element are broadcast, and do not vary.

    The sizes of a deep module's weights are constants: its layers fix them, and trying takes too long.
    """
    classes: dict[int, list[Axis]] = {}
    for name, shape in example.items():
        for axis, extent in enumerate(shape):
            if extent > 1:
                classes.setdefault(extent, []).append((name, axis))
    weights = set(subject.parameters.values())
    deep = len(weights) > _MOST_WEIGHTS
    return {
        extent: [axis for axis in axes if axis[0] not in weights or not (deep or len(axes) > _MOST_AXES)]
        for extent, axes in classes.items()
    }


def _groups(subject: UserOperation, example: Shapes, axes: Sequence[Axis], extent: int) -> Iterator[AxisGroup]:
    """Yield the smallest sets of equal axes that can change together, with the unit of their change.

    Where some are left that change only with one of these sets, they are of it: `y.reshape(len(x), 4, -1)` takes any
    number of rows of `y`, and `x` beside it does not.
    """
    left, found = list(axes), list[AxisGroup]()
    for size in range(1, len(axes) + 1):
        if _MOST_TOGETHER < size < len(left) or size > len(left):
            continue
        for group in axis_sets(left, size):
            if all(axis in left for axis in group) and (grown := _growing(subject, example, equal_axes(group))):
                left = [axis for axis in left if axis not in group]
                found.append(grown)
    for place, each in enumerate(found if left else ()):
        if grown := _growing(subject, example, equal_axes((*each.axes, *left))):
            found[place] = grown
            break
    yield from found


def _in_proportion(
    subject: UserOperation, example: Shapes, axes: Sequence[Axis], found: Sequence[AxisGroup]
) -> Iterator[AxisGroup]:
    """Yield the smallest sets of axes that no group has and that change together, of several extents, as packed ones.

    `found` is looked at when the first is asked for.
    """
    taken = {axis for group in found for axis in group.axes}
    for group in sets_in_proportion(example, [axis for axis in axes if axis not in taken]):
        if not taken & {*group.axes} and (grown := _growing(subject, example, group)):
            taken |= {*group.axes}
            yield grown


def _steps_along(subject: UserOperation, example: Shapes, group: AxisGroup, *, count: int) -> bool:
    """Say whether the reference takes steps in Python for elements of these axes: a kernel has as many for all sizes.

    A step may be one element, or a chunk of them; `count` operations are those of the example.
    """
    units = group.count(example)
    for more in (1, units):
        with suppress(TaskError):
            one, other = (operations_of(subject, group.grown(example, units + by * more)) for by in (1, 2))
            if count < one < other:
                return True
    return False


def _growing(subject: UserOperation, example: Shapes, group: AxisGroup) -> AxisGroup | None:
    """Return the axes with the smallest units that they can grow and shrink by, or None where they must stay.

    What is cut to the size of another tensor, as a mask for the longest sequence is, can grow alone and not shrink.
    """
    units = group.count(example)
    if not any(runs(subject, group.grown(example, count)) for count in (units + 1, 2 * units)):
        return None
    for divisor in (number for number in range(1, units + 1) if units % number == 0):
        wider, count = group.in_steps(divisor), units // divisor
        if all(runs(subject, wider.grown(example, count + more)) for more in (1, 2)):
            return wider if runs(subject, wider.grown(example, max(count - 1, 1))) else None
    return None


def _named(
    found: Sequence[AxisGroup], example: Shapes, result: Sequence[Any], subject: UserOperation
) -> tuple[Dimension, ...]:
    """Return named dimensions; those of the first output come first, in its order, as readers expect."""
    first = tuple(outputs_of(subject, shapes_with(example, found, FIRST))[0].shape)
    traced = {unit * FIRST[place]: place for place, group in enumerate(found) for unit in group.units}
    shown = [*dict.fromkeys(traced[extent] for extent in first if extent in traced)]
    order = [*shown, *(place for place in range(len(found)) if place not in shown)]
    likely = _BY_RANK.get(len(shown), ()) if len(shown) == len(result[0].shape) or len(shown) < 3 else ()
    taken = {name.upper() for name in example if len(name) == 1 and name.isupper()}
    names = [name for name in dict.fromkeys((*likely, *_MORE_NAMES, "M", "N", "B")) if name not in taken]
    return tuple(
        Dimension(names[number], found[place].axes, found[place].units, found[place].count(example))
        for number, place in enumerate(order)
    )


def shapes_at(layout: Layout, dims: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the inputs for these dimensions."""
    return {name: tuple(evaluate(extent, dims) for extent in shape) for name, shape in layout.inputs.items()}


def _layout(
    subject: UserOperation, example: Shapes, dimensions: tuple[Dimension, ...], result: Sequence[Any]
) -> Layout:
    found = [dimension.group for dimension in dimensions]
    one, other, *further = (
        shapes_with(example, found, values)
        for values in (FIRST, SECOND, *([each + more for each in FIRST] for more in _FURTHER))
    )
    shapes_1, shapes_2 = (_output_shapes(subject, shapes) for shapes in (one, other))
    sizes = SymbolicSizes(tuple(dimension.name for dimension in dimensions))
    while True:
        for pair in zip((*one.values(), *shapes_1), (*other.values(), *shapes_2), strict=True):
            for first, second in zip(*pair, strict=True):
                sizes.learn(first, second)
        wrong = _wrong_quotients(subject, sizes, shapes_1, further)
        if not wrong:
            break
        sizes = SymbolicSizes(sizes.names, wrong={*sizes.wrong, *wrong})
    if _other_order(subject, example, dimensions, sizes, shapes_1, result):
        raise NotGeneral("the outputs follow from these sizes in another way where another one is the larger")
    return Layout(
        dimensions=dimensions,
        inputs={name: symbolic_shape(shape, sizes) for name, shape in one.items()},
        outputs=tuple(symbolic_shape(shape, sizes) for shape in shapes_1),
        output_dtypes=tuple(map(dtype_name, result)),
        strides={name: symbolic_strides(one[name], order, sizes) for name, order in subject.orders.items()},
        sizes=sizes,
    )


def _other_order(
    subject: UserOperation,
    example: Shapes,
    dimensions: Sequence[Dimension],
    sizes: SymbolicSizes,
    shapes: Sequence[tuple[int, ...]],
    result: Sequence[Any],
) -> bool:
    """Say whether outputs have other shapes than they should at the example, or where another size is the larger.

    A cache from which as many rows go as come in is as long as both where more come in than it has.
    """
    back = FIRST[: len(dimensions)][::-1]
    tried: list[tuple[Sequence[int], Sequence[tuple[int, ...]]]] = [
        ([each.example for each in dimensions], [tuple(each.shape) for each in result])
    ]
    with suppress(TaskError):  # not every operation takes sizes of every order
        groups = [each.group for each in dimensions]
        tried.append((back, _output_shapes(subject, shapes_with(example, groups, back))))
    for values, due in tried:
        dims = dict(zip(sizes.names, values, strict=True))
        if [tuple(sizes.at(extent, dims) for extent in shape) for shape in shapes] != due:
            return True
    return False


def _output_shapes(subject: UserOperation, inputs: Shapes) -> list[tuple[int, ...]]:
    return [tuple(item.shape) for item in outputs_of(subject, inputs)]


def _wrong_quotients(
    subject: UserOperation, sizes: SymbolicSizes, shapes: Sequence[tuple[int, ...]], further: Sequence[Shapes]
) -> set[tuple[int, Quotient]]:
    """Return quotients, by their size in the first trace, that do not hold at further sizes: two traces fit several."""
    found = set[tuple[int, Quotient]]()
    if not any(quotient.divisor > 1 for quotient in sizes.quotients.values()):
        return found
    for more, inputs in zip(_FURTHER, further, strict=True):
        dims = {name: each + more for name, each in zip(sizes.names, FIRST, strict=False)}
        with suppress(TaskError):  # not every operation takes sizes of every kind
            for shape, made in zip(shapes, _output_shapes(subject, inputs), strict=True):
                off = [
                    size
                    for size, due in zip(shape, made, strict=True)
                    if sizes.is_derived(size) and sizes.at(size, dims) != due
                ]
                factors = {factor for size in off for factor in sizes.products.get(size, (size,))}
                found |= {(each, sizes.quotients[each]) for each in factors & sizes.quotients.keys()}
    return found
