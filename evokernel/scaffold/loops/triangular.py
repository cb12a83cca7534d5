"""Linear algebra: triangular factors and systems as one primitive each, and what is said of all others."""

from evokernel.scaffold.loops.operation_graph import Node, OperationGraph, Shape


def cholesky(graph: OperationGraph, source: Node, *, upper: bool) -> Node:
    """Return the factor of Cholesky of matrices [..., N, N], of which only that triangle is read."""
    source = _turned(graph, source) if upper else source
    made = graph.node("cholesky", (source,), shape=source.shape, kind="float")
    return _turned(graph, made) if upper else made


def solved(
    graph: OperationGraph, matrix: Node, right: Node, shape: Shape, *, upper: bool, left: bool, unitriangular: bool
) -> Node:
    """Return x of `matrix @ x = right`, or of `x @ matrix = right` where the matrix does not stand on the left."""
    if not left:
        turned = _turned(graph, right)
        whole = (*shape[:-2], shape[-1], shape[-2])
        matrix, upper = _turned(graph, matrix), not upper
        return _turned(graph, solved(graph, matrix, turned, whole, upper=upper, left=True, unitriangular=unitriangular))
    matrix = _with_batch(graph, matrix, (*shape[:-2], *matrix.shape[-2:]))
    right = _with_batch(graph, right, shape)
    if upper:  # from the last row to the first
        matrix, right = _reversed(graph, matrix, 2), _reversed(graph, right, 1)
    made = graph.node("solve", (matrix, right), attrs=(int(unitriangular),), shape=shape, kind="float")
    return _reversed(graph, made, 1) if upper else made


def _turned(graph: OperationGraph, node: Node) -> Node:
    """Return matrices with rows as columns."""
    *batch, row, column = range(len(node.shape))
    order = (*batch, column, row)
    return graph.node(
        "transpose", (node,), attrs=(order,), shape=tuple(node.shape[axis] for axis in order), kind=node.kind
    )


def _reversed(graph: OperationGraph, node: Node, count: int) -> Node:
    """Return matrices with rows in the other order; if `count` is 2, with columns so, too."""
    first = len(node.shape) - 2
    return graph.node("reverse", (node,), attrs=((first, first + 1)[:count],), shape=node.shape, kind=node.kind)


def _with_batch(graph: OperationGraph, node: Node, shape: Shape) -> Node:
    return graph.broadcast(node, shape, tuple(range(len(shape) - len(node.shape), len(shape))))


_LIBRARY = "is a function of a library, whose steps torch does not show and whose last bits may differ between calls"


def without_loop(library: str, name: str) -> str:
    """Return why an operation of torch has no plain loop, and what to do about one of linear algebra."""
    if "linalg_" not in name:
        return f"the operation {library}.{name} has no naive loop yet"
    known = f"torch.linalg.{name.partition('linalg_')[2].removesuffix('_ex')} ({library}.{name})"
    return (
        f"{known} {_LIBRARY}: expected operations on tensors. Write its steps out in the function, as rotations or "
        "products of matrices, or fill in a kernel that gives the same results"
    )


def library_steps(why: str) -> str:
    """Return a reason of `without_loop` as one more sentence, where it is about a library."""
    return f". {why}" if _LIBRARY in why else ""
