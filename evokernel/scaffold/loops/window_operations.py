"""Convolutions and pooling as sums over windows: views of the input with an axis for the place in the window."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from evokernel.scaffold.loops.operation_graph import Node, OperationGraph, Shape
from evokernel.scaffold.operation.sizes import NotGeneral, SymbolicSizes


@dataclass(frozen=True, slots=True)
class WindowAxis:
    """One axis of windows."""

    stride: int
    dilation: int
    padding: int
    transposed: bool = False
    beyond: bool = False
    """The last window may end behind the padding."""

    @property
    def attrs(self) -> tuple[int, int, int, int]:
        """The numbers as attributes of a node."""
        return self.stride, self.dilation, self.padding, int(self.transposed)

    @property
    def leaves_input(self) -> bool:
        """Windows may reach beyond the input."""
        return bool(self.padding) or self.transposed or self.beyond


def each_axis(values: Sequence[int], count: int) -> list[int]:
    """Return one number for each axis; torch gives a single one for all."""
    return list(values) * count if len(values) == 1 else list(values)


def convolution(graph: OperationGraph, given: Sequence[Any], attributes: Sequence[Any], out: Shape) -> Node:
    """Return a convolution as the sum over channels and windows of products.

    Args:
        given: input [N, C, ...], weight, and bias or None.
        attributes: of `aten.convolution` from the stride on.
        out: shape of the result.
    """
    x, weight, bias = given
    stride, padding, dilation, transposed, _, groups = attributes
    count = len(weight.shape) - 2
    if len(x.shape) != count + 2:
        raise NotGeneral("a convolution without a batch has no naive loop yet")
    strides, dilations, paddings = (each_axis(values, count) for values in (stride, dilation, padding))
    axes = [WindowAxis(*each, bool(transposed)) for each in zip(strides, dilations, paddings, strict=True)]
    inner, outer, taps = x.shape[1] // groups, out[1] // groups, weight.shape[2:]
    full = (out[0], groups, outer, *out[2:], inner, *taps)
    places, source, tap = range(3, 3 + count), 3 + count, range(4 + count, 4 + 2 * count)
    apart = graph.node("split", (x,), attrs=(1,), shape=(x.shape[0], groups, inner, *x.shape[2:]), kind=x.kind)
    value = _windowed(graph, apart, axes, first=3, out=out[2:], taps=taps)
    pairs = [dim for pair in zip(places, tap, strict=True) for dim in pair]
    value = graph.broadcast(value, full, (0, 1, source, *pairs))
    value = _inside(graph, value, axes, (*zip(places, tap, strict=True),), x.shape[2:], "0.0f")
    first = (groups, inner, outer) if transposed else (groups, outer, inner)
    split = graph.node("split", (weight,), attrs=(0,), shape=(*first, *taps), kind=weight.kind)
    factor = graph.broadcast(split, full, (1, source, 2, *tap) if transposed else (1, 2, source, *tap))
    product = graph.pointwise("mul", value, factor)
    total = graph.reduce("sum", product, (source, *tap))
    made = graph.node("collapse", (total,), attrs=(1, 2), shape=out, kind=total.kind)
    return made if bias is None else graph.pointwise("add", made, graph.broadcast(bias, out, (1,)))


def pooling(graph: OperationGraph, x: Node, axes: Sequence[WindowAxis], taps: Shape, out: Shape, *, op: str) -> Node:
    """Return the `sum` or `amax` over the windows of the last axes."""
    outside = "0.0f" if op == "sum" else "-INFINITY"
    value = _in_windows(graph, x, axes, taps, out, outside=outside)
    return graph.reduce(op, value, tuple(range(len(out), len(out) + len(taps))))


def _in_windows(
    graph: OperationGraph, x: Node, axes: Sequence[WindowAxis], taps: Shape, out: Shape, *, outside: str
) -> Node:
    """Return the elements of the windows of the last axes, whose places in a window are axes behind all others."""
    lead, count = len(x.shape) - len(axes), len(axes)
    places, tap = range(lead, lead + count), range(lead + count, lead + 2 * count)
    value = _windowed(graph, x, axes, first=lead, out=out[lead:], taps=taps)
    pairs = [dim for pair in zip(places, tap, strict=True) for dim in pair]
    value = graph.broadcast(value, (*out, *taps), (*range(lead), *pairs))
    return _inside(graph, value, axes, (*zip(places, tap, strict=True),), x.shape[lead:], outside)


def _windowed(
    graph: OperationGraph, x: Node, axes: Sequence[WindowAxis], *, first: int, out: Shape, taps: Shape
) -> Node:
    """Return a view with two axes, place and tap, for each axis of windows."""
    for number in reversed(range(len(axes))):
        dim = first + number
        shape = (*x.shape[:dim], out[number], taps[number], *x.shape[dim + 1 :])
        x = graph.node("window", (x,), attrs=(dim, *axes[number].attrs), shape=shape, kind=x.kind)
    return x


def _inside(
    graph: OperationGraph,
    value: Node,
    axes: Sequence[WindowAxis],
    dims: Sequence[tuple[int, int]],
    extents: Shape,
    outside: str,
) -> Node:
    """Return values within the input, and a number beyond."""
    mask: Node | None = None
    for axis, pair, extent in zip(axes, dims, extents, strict=True):
        if axis.leaves_input:
            shape = tuple(value.shape[dim] for dim in pair)
            within = graph.node("inside", (), attrs=(*axis.attrs, extent), shape=shape, kind="bool")
            within = graph.broadcast(within, value.shape, pair)
            mask = within if mask is None else graph.pointwise("bitwise_and", mask, within, kind="bool")
    return value if mask is None else graph.pointwise("where", mask, value, graph.number(outside), kind=value.kind)


def average_pooling(graph: OperationGraph, x: Node, given: Sequence[Any], out: Shape, *, count: int) -> Node:
    """Return the averages over windows of `count` axes; `given` is what follows the input in `aten.avg_pool2d`."""
    numbers: list[Any] = [*given, *([], 0, False, True, None)[len(given) - 1 :]]
    size, stride, padding, ceil, padded, divisor = numbers
    taps = tuple(each_axis(size, count))
    axes = _window_axes([taps, stride or taps, padding or [0], [1]], ceil=ceil)
    total, edges = pooling(graph, x, axes, taps, out, op="sum"), any(axis.padding for axis in axes)
    if divisor or not (ceil or edges) or (padded and not ceil):
        return graph.pointwise("div", total, graph.number(f"{float(divisor or prod(taps))!r}f"))
    if padded and edges:
        raise NotGeneral("an average over padding with ceil_mode has no naive loop yet")
    ones = graph.broadcast(graph.number("1.0f"), x.shape, ())
    return graph.pointwise("div", total, pooling(graph, ones, axes, taps, out, op="sum"))


def max_pooling(
    graph: OperationGraph, sizes: SymbolicSizes, x: Node, given: Sequence[Any], out: Shape, *, count: int
) -> list[Node]:
    """Return the largest elements of windows, and their places in the last axes as one.

    `given` follows the input in `aten.max_pool2d_with_indices`.
    """
    numbers: list[Any] = [*given, *([], [0], [1], False)[len(given) - 1 :]]
    size, stride, padding, dilation, ceil = numbers
    taps = tuple(each_axis(size, count))
    axes = _window_axes([taps, stride or taps, padding or [0], dilation or [1]], ceil=ceil)
    value = _in_windows(graph, x, axes, taps, out, outside="-INFINITY")
    lead = len(out)
    flat = (*out, prod(taps))
    flat_value = graph.node("collapse", (value,), attrs=(lead, lead + count - 1), shape=flat, kind=value.kind)
    tap, place = graph.reduce("argmax", flat_value, (lead,)), graph.number("0", "int64_t")

    def whole(op: str, *args: Node | int | str) -> Node:
        numbers = (each if isinstance(each, Node) else graph.number(str(each), "int64_t") for each in args)
        return graph.pointwise(op, *numbers, kind="int64_t")

    for number, axis in enumerate(axes):
        dim = lead - count + number
        counted = graph.node("iota", (), attrs=(-axis.padding, axis.stride), shape=(out[dim],), kind="int64_t")
        within = whole("remainder", whole("div", tap, prod(taps[number + 1 :])), taps[number])
        here = whole("add", graph.broadcast(counted, out, (dim,)), whole("mul", within, axis.dilation))
        place = whole("add", whole("mul", place, sizes.text(x.shape[dim])), here)
    return [graph.reduce("amax", value, tuple(range(lead, lead + count))), place]


def _window_axes(numbers: Sequence[Any], *, ceil: bool) -> list[WindowAxis]:
    count = len(numbers[0])
    _, strides, paddings, dilations = (each_axis(values, count) for values in numbers)
    return [WindowAxis(*each, beyond=ceil) for each in zip(strides, dilations, paddings, strict=True)]
