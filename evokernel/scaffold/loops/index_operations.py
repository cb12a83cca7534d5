"""Operations at places that tensors of indices name: elements that are looked up, stored or added up there."""

from collections.abc import Sequence
from typing import Any

import torch

from evokernel.scaffold.loops.operation_graph import PLACES, VIEWS, Node, OperationGraph, Shape
from evokernel.scaffold.operation.sizes import NotGeneral, SymbolicSizes

_MOST_LOOKED_UP = 4
"""Joined tensors of which each element finds its own."""
_STORES = {"sum": "index_sum", "prod": "index_prod", "amax": "index_amax", "amin": "index_amin"}


def looked_up(graph: OperationGraph, sizes: SymbolicSizes, source: Node, indices: Sequence[Node | None]) -> Node:
    """Return `source[indices]`, as torch has it; None stands for a whole dimension."""
    aligned, attrs, shape = _aligned(graph, sizes, source, indices)
    return graph.node("index", (source, *aligned), attrs=attrs, shape=shape, kind=source.kind)


def counted(graph: OperationGraph, sizes: SymbolicSizes, start: int, step: int, shape: Shape) -> Node:
    """Return integers from `start` on in steps, each of which may be a size."""
    if not (sizes.depends(start) or sizes.depends(step)):
        return graph.node("iota", (), attrs=(start, step), shape=shape, kind="int64_t")
    first, by = (graph.number(sizes.text(each), "int64_t") for each in (start, step))
    made = graph.node("iota", (), attrs=(0, 1), shape=shape, kind="int64_t")
    return graph.pointwise("add", graph.pointwise("mul", made, by, kind="int64_t"), first, kind="int64_t")


def in_steps(graph: OperationGraph, sizes: SymbolicSizes, source: Node, dim: int, steps: tuple[int, int, int]) -> Node:
    """Return elements in steps along one dimension, given the first place, the step and the number of elements."""
    first, step, count = steps
    if sizes.depends(first):
        raise NotGeneral("steps that begin at a place counted from the end have no naive loop yet")
    places = graph.node("iota", (), attrs=(first, step), shape=(count,), kind="int64_t")
    return looked_up(graph, sizes, source, [*[None] * (dim % len(source.shape)), places])


def joined(graph: OperationGraph, sizes: SymbolicSizes, parts: Sequence[Node], dim: int, shape: Shape) -> Node:
    """Return tensors behind each other along a dimension.

    Each element looks up the one that it comes from; many tensors are written one after the other.
    """
    dim = dim % len(shape)
    if len(parts) > _MOST_LOOKED_UP:
        starts = [0, *(sizes.added([part.shape[dim] for part in parts[:number]]) for number in range(1, len(parts)))]
        pieces = [
            graph.node("part", (part,), attrs=(dim, start), shape=part.shape, kind=part.kind)
            for part, start in zip(parts, starts, strict=True)
        ]
        return graph.node("joined", tuple(pieces), shape=shape, kind=parts[0].kind)
    places = graph.node("iota", (), attrs=(0, 1), shape=(shape[dim],), kind="int64_t")
    place, extents = graph.broadcast(places, shape, (dim,)), [part.shape[dim] for part in parts]

    def moved(part: Node, by: int) -> Node:
        return graph.node("slice", (part,), attrs=(dim, -by), shape=shape, kind=part.kind)

    made = moved(parts[0], 0)
    for number, part in enumerate(parts[1:], 1):
        before = sizes.added(extents[:number])
        begin = graph.number(sizes.text(before), "int64_t")
        behind = graph.pointwise("ge", place, begin, kind="bool")
        made = graph.pointwise("where", behind, moved(part, before), made, kind=part.kind)
    return made


def stored(
    graph: OperationGraph, sizes: SymbolicSizes, base: Node, indices: Sequence[Node | None], values: Node, *, add: bool
) -> Node:
    """Return a tensor after `base[indices] = values`, or after they were added there."""
    aligned, attrs, shape = _aligned(graph, sizes, base, indices)
    values = graph.broadcast(values, shape, tuple(range(len(shape) - len(values.shape), len(shape))))
    return _stored(graph, "index_sum" if add else "index_put", base, values, aligned, attrs)


def gathered(graph: OperationGraph, source: Node, dim: int, index: Node) -> Node:
    """Return elements that an index names along one dimension."""
    attrs = (_along(source, dim), 0)
    return graph.node("index", (source, index), attrs=attrs, shape=index.shape, kind=source.kind)


def scattered(graph: OperationGraph, base: Node, dim: int, index: Node, values: Node, *, how: str = "") -> Node:
    """Return a tensor after values were stored where an index names places along one dimension.

    `how` names a reduction with what is there; by default they take its place.
    """
    if how not in ("", *_STORES):
        raise NotGeneral(f"a scatter with {how} has no naive loop yet")
    if not values.shape:
        values = graph.broadcast(values, index.shape, ())
    for axis, extent in enumerate(index.shape):
        shape = (*index.shape[: axis + 1], *values.shape[axis + 1 :])
        if values.shape[axis] != extent:
            values = graph.node("slice", (values,), attrs=(axis, 0), shape=shape, kind=values.kind)
    return _stored(graph, _STORES.get(how, "index_put"), base, values, (index,), (_along(base, dim), 0))


def _stored(
    graph: OperationGraph, op: str, base: Node, values: Node, indices: tuple[Node, ...], attrs: tuple[Any, ...]
) -> Node:
    if "bool" in (base.kind, values.kind) and op != "index_put":
        raise NotGeneral("a sum at places that an index names has no naive loop for bool yet")
    return graph.node(op, (base, values, *indices), attrs=attrs, shape=base.shape, kind=base.kind)


def _along(source: Node, dim: int) -> tuple[int, ...]:
    if not source.shape:
        raise NotGeneral("an index into a single element has no naive loop yet")
    return tuple(-1 if axis == dim % len(source.shape) else axis for axis in range(len(source.shape)))


def _aligned(
    graph: OperationGraph, sizes: SymbolicSizes, source: Node, indices: Sequence[Node | None]
) -> tuple[tuple[Node, ...], tuple[Any, ...], Shape]:
    """Return indices of one shape, the attributes of a node that has them, and the shape of what they name.

    Dimensions of indices beside each other stand where these are, else in front.
    """
    named = {dim: index for dim, index in enumerate(indices) if index is not None}
    if any(index.kind != "int64_t" for index in named.values()):
        raise NotGeneral("an index of bool or of bytes has no naive loop yet")
    common = tuple(torch.broadcast_shapes(*(index.shape for index in named.values())))
    aligned = []
    for dim, index in named.items():
        dims = tuple(range(len(common) - len(index.shape), len(common)))
        aligned.append(graph.broadcast(_from_the_end(graph, sizes, index, source.shape[dim]), common, dims))
    begin, rest = min(named), [dim for dim in range(len(source.shape)) if dim not in named]
    first = begin if max(named) - begin < len(named) else 0
    places = [-1] * len(source.shape)
    for place, dim in enumerate(rest):
        places[dim] = place if place < first else place + len(common)
    kept = [source.shape[dim] for dim in rest]
    return tuple(aligned), (tuple(places), first), (*kept[:first], *common, *kept[first:])


def _from_the_end(graph: OperationGraph, sizes: SymbolicSizes, index: Node, extent: int) -> Node:
    """Return an index whose values below 0 count from the end."""
    if not _may_be_negative(index):
        return index
    below = graph.pointwise("lt", index, graph.number("0", "int64_t"), kind="bool")
    moved = graph.pointwise("add", index, graph.number(sizes.text(extent), "int64_t"), kind="int64_t")
    return graph.pointwise("where", below, moved, index, kind="int64_t")


def _may_be_negative(node: Node) -> bool:
    """Say whether integers may be below 0; those of an input are not, where they are indices."""
    if node.op == "input" or node.op in PLACES or node.kind == "bool":
        return False
    if node.op == "number":
        return str(node.attrs[0]).startswith("-")
    if node.op == "iota":
        return any(int(number) < 0 for number in node.attrs if isinstance(number, int))
    if node.op in VIEWS or (node.op == "cast" and node.args[0].kind != "float"):
        return _may_be_negative(node.args[0])
    if node.op in ("add", "mul", "minimum", "sum", "cumsum", "amax", "cummax", "cummin"):
        return any(map(_may_be_negative, node.args))
    if node.op == "where":
        return any(map(_may_be_negative, node.args[1:]))
    return node.op != "maximum" or all(map(_may_be_negative, node.args))
