"""Operations along dimensions: variances, the largest elements and their places, and running totals."""

from math import prod

from evokernel.scaffold.loops.index_operations import gathered
from evokernel.scaffold.loops.operation_graph import PLACES, Kind, Node, OperationGraph, Shape
from evokernel.scaffold.operation.sizes import NotGeneral, SymbolicSizes

RUNNING_EXTREMES = {
    "aten.cummax.default": ("cummax", "cumargmax"),
    "aten.cummin.default": ("cummin", "cumargmin"),
}
"""Names of the two results of operations that return the best elements so far and their places."""


def extreme(graph: OperationGraph, source: Node, op: str, dim: int | None, shape: Shape) -> Node:
    """Return the largest or smallest elements along a dimension, or of all, or the places of the first of them.

    `shape` is that of the result, which may keep the dimension with one element.
    """
    _not_bool(source, op)
    keep = bool(source.shape) and len(shape) == len(source.shape)
    if dim is None and len(source.shape) > 1:
        ends, whole = (0, len(source.shape) - 1), (prod(source.shape),)
        source = graph.node("collapse", (source,), attrs=ends, shape=whole, kind=source.kind)
    made = graph.reduce(op, source, (dim or 0,))
    kept = [place for place in range(len(shape)) if not keep or place != (dim or 0) % len(shape)] if made.shape else []
    return graph.broadcast(made, shape, tuple(kept))


def running(graph: OperationGraph, op: str, source: Node, dim: int, *, kind: Kind) -> Node:
    """Return running totals along one dimension, or the largest or smallest elements so far, or their places."""
    if op not in ("cumsum", "cumprod"):
        _not_bool(source, op)
    if not source.shape:
        return graph.number("0", kind) if op in PLACES else source
    return graph.node(op, (source,), attrs=(dim % len(source.shape),), shape=source.shape, kind=kind)


def running_extremes(graph: OperationGraph, name: str, source: Node, dim: int) -> list[Node]:
    """Return the largest or smallest elements so far along one dimension, and their places."""
    values, places = RUNNING_EXTREMES[name]
    return [
        running(graph, values, source, dim, kind=source.kind),
        running(graph, places, source, dim, kind="int64_t"),
    ]


def ordered(graph: OperationGraph, source: Node, dim: int, shape: Shape, *, largest: bool) -> list[Node]:
    """Return elements in a stable order along one dimension, and their places; the first ones where `shape` has few."""
    if not shape:
        return [source, graph.number("0", "int64_t")]
    last, dim = len(shape) - 1, dim % len(shape)
    turn = tuple(dim if axis == last else last if axis == dim else axis for axis in range(len(shape)))

    def turned(node: Node) -> Node:
        whole = tuple(node.shape[axis] for axis in turn)
        return graph.node("transpose", (node,), attrs=(turn,), shape=whole, kind=node.kind)

    along = turned(source)
    found = graph.node("order", (along,), attrs=(int(largest),), shape=(*along.shape[:-1], shape[dim]), kind="int64_t")
    return [turned(gathered(graph, along, last, found)), turned(found)]


def variance(
    graph: OperationGraph, sizes: SymbolicSizes, source: Node, dims: tuple[int, ...], correction: float
) -> Node:
    """Return the variance in two passes: the mean, then the mean square of the deviations."""
    shape = source.shape
    kept = tuple(1 if dim in dims else extent for dim, extent in enumerate(shape))
    places = tuple(dim for dim in range(len(shape)) if dim not in dims)
    extents = [shape[dim] for dim in dims]
    product = sizes.product(extents)
    count = f"static_cast<float>({product})" if any(map(sizes.depends, extents)) else f"{float(prod(extents))!r}f"
    total = graph.broadcast(graph.reduce("sum", source, dims), kept, places)
    mean = graph.broadcast(graph.pointwise("div", total, graph.number(count)), shape, tuple(range(len(shape))))
    off = graph.pointwise("sub", source, mean)
    square = graph.reduce("sum", graph.pointwise("mul", off, off), dims)
    freedom = f"static_cast<float>({product} - {correction:g})" if correction else count
    return graph.pointwise("div", square, graph.number(freedom))


def _not_bool(source: Node, op: str) -> None:
    if source.kind == "bool":
        raise NotGeneral(f"{op} over torch.bool has no naive loop yet")
