"""Elements at places that other tensors hold, as nodes of the graph."""

from collections.abc import Mapping

from evokernel.scaffold.operation_graph import INTEGERS, Node, OperationGraph, Shape
from evokernel.scaffold.sizes import NotGeneral


def looked_up(graph: OperationGraph, source: Node, places: Mapping[int, Node], shape: Shape) -> Node:
    """Return the elements that tensors of places point to, by dimension; other dimensions are taken whole.

    The places' own dimensions lie where the first of theirs was if those are neighbours, and in front otherwise.

    Raises:
        NotGeneral: places are chosen by a mask.
    """
    if any(place.kind not in INTEGERS for place in places.values()):
        raise NotGeneral("elements that a mask selects have no naive loop yet")
    dims, rank = tuple(places), max(len(place.shape) for place in places.values())
    first = dims[0] if dims == tuple(range(dims[0], dims[-1] + 1)) else 0
    wide = tuple(
        graph.broadcast(place, shape, tuple(range(first + rank - len(place.shape), first + rank)))
        for place in places.values()
    )
    whole = iter(axis for axis in range(len(shape)) if not first <= axis < first + rank)
    kept = tuple(-1 if dim in places else next(whole) for dim in range(len(source.shape)))
    return graph.node("lookup", (source, *wide), attrs=(kept,), shape=shape, kind=source.kind)


def gathered(graph: OperationGraph, source: Node, dim: int, place: Node) -> Node:
    """Return the elements at places along one dimension; of the others each has the place that it has in `place`."""
    kept = tuple(-1 if axis == dim % len(source.shape) else axis for axis in range(len(source.shape)))
    return graph.node("lookup", (source, place), attrs=(kept,), shape=place.shape, kind=source.kind)
