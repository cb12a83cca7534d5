"""Graph of a reference's operations: inputs, numbers, views, pointwise operations, reductions."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest
from math import prod
from typing import Literal

Kind = Literal["float", "int64_t", "int8_t", "uint8_t", "bool"]
INTEGERS: frozenset[Kind] = frozenset({"int64_t", "int8_t", "uint8_t"})
NARROW: frozenset[Kind] = frozenset({"int8_t", "uint8_t"})
"""Integers whose arithmetic wraps, while C++ widens their operands."""
Shape = tuple[int, ...]
Attribute = int | float | str | tuple[int, ...]

VIEWS = frozenset({"broadcast", "transpose", "squeeze", "collapse", "split", "slice", "reverse", "window", "index"})
REDUCTIONS = frozenset({"sum", "amax", "amin", "argmax", "argmin", "prod", "matmul"})
PLACES = frozenset({"argmax", "argmin", "cumargmax", "cumargmin", "order"})
"""Operations whose result is the place of an element, or of each in a stable order."""
SCANS = frozenset({"cumsum", "cumprod", "cummax", "cummin", "cumargmax", "cumargmin", "logcumsumexp"})
STORES = frozenset({"index_put", "index_sum", "index_prod", "index_amax", "index_amin"})
TRIANGULAR = frozenset({"cholesky", "solve"})
"""Operations whose rows follow from the rows before: a lower factor, and a system with a lower triangular matrix."""
KEPT = REDUCTIONS | SCANS | STORES | TRIANGULAR | {"table", "recurrence", "order", "joined", "part"}
"""Values that need loops or statements of their own."""
_DEEPEST = 100
"""Operations inside each other in one expression."""
LEAVES = frozenset({"input", "number", "iota", "inside"})
TRANSCENDENTAL = frozenset({
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "tanh", "sinh", "cosh", "sin", "cos", "tan", "asin",
    "acos", "atan", "asinh", "acosh", "atanh", "erf", "erfc", "lgamma", "hypot", "pow", "rsqrt", "sqrt",
})  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One value. Nodes are interned by `OperationGraph`, so equal values are one object.

    `attrs` by operation: input (name,), number (C++ text,), iota (start, step), broadcast (dims of the argument in
    the result), transpose (permutation), squeeze (dims,), collapse (first, last), split (dim,), slice (dim, start,
    below 0 where the result begins earlier), reverse (dims,), window (dim, stride, dilation, padding, transposed),
    inside (the last four, extent), part (dim, start in what it is joined to), reductions (dims,), scans (dim,),
    recurrence (kind of layer,), solve (1 where the diagonal counts as ones,), order along the last dimension (1 where
    the largest is the first,), index and stores (for each dimension of the first argument that of the result, or of the
    values, that indexes it, -1 for the next index; place of the dimensions of indices there).
    """

    op: str
    """Name of the operation that makes it."""
    args: tuple["Node", ...]
    """Operands; those of `matmul` have shapes [..., M, K] and [..., K, N], those of `table` are its elements.

    `solve` has the matrix [..., N, N] and the right side [..., N, K], of which the first names no other batch.

    Those of `recurrence` are gates [T, B, G, H], weight [G, H, H], bias [G, H] and states at the start [S, B, H].
    Stores have what is there before, the values and the indices; `index` has no values.
    """
    attrs: tuple[Attribute, ...]
    """Attributes of the operation, as listed above."""
    shape: Shape
    kind: Kind
    """Type of an element in C++."""

    @property
    def pointwise(self) -> bool:
        """True where each element is made from the same element of the arguments."""
        return self.op not in VIEWS | KEPT | LEAVES


class OperationGraph:
    """Maker of nodes: equal ones are one object, operations without effect are dropped."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[object, ...], Node] = {}

    def node(
        self, op: str, args: tuple[Node, ...], *, attrs: tuple[Attribute, ...] = (), shape: Shape, kind: Kind
    ) -> Node:
        """Return the node, or the argument it would be equal to."""
        if args and _changes_nothing(op, args, attrs, shape, kind):
            return args[0] if not (args[0].op == "number" and len(args) > 1) else args[1]
        key = (op, tuple(id(arg) for arg in args), attrs, shape, kind)
        return self._nodes.setdefault(key, Node(op, args, attrs, shape, kind))

    def number(self, text: str, kind: Kind = "float") -> Node:
        """Return a number, given as C++ text."""
        return self.node("number", (), attrs=(text,), shape=(), kind=kind)

    def pointwise(self, op: str, *args: Node, kind: Kind = "float") -> Node:
        """Return an operation on elements; operands of other shapes are broadcast, as torch does it."""
        shape = _broadcast_shape(*(arg.shape for arg in args))
        axes = tuple(range(len(shape)))
        spread = (
            arg if arg.shape in ((), shape) else self.broadcast(arg, shape, axes[len(shape) - len(arg.shape) :])
            for arg in args
        )
        return self.node(op, tuple(spread), shape=shape, kind=kind)

    def reduce(self, op: str, arg: Node, dims: tuple[int, ...]) -> Node:
        """Return a reduction; the reduced dimensions are dropped."""
        dims = tuple(sorted(dim % len(arg.shape) for dim in dims)) if arg.shape else ()
        shape = tuple(extent for dim, extent in enumerate(arg.shape) if dim not in dims)
        kind = "int64_t" if op.startswith("arg") else arg.kind
        return self.node(op, (arg,), attrs=(dims,), shape=shape, kind=kind)

    def broadcast(self, arg: Node, shape: Shape, dims: tuple[int, ...]) -> Node:
        """Return a view with more, or longer, dimensions; dimension n of the argument is `dims[n]` of the result."""
        return self.node("broadcast", (arg,), attrs=(dims,), shape=shape, kind=arg.kind)


def _changes_nothing(op: str, args: tuple[Node, ...], attrs: tuple[Attribute, ...], shape: Shape, kind: Kind) -> bool:
    first = args[0]
    if op in ("mul", "add", "div", "sub"):
        neutral = ("1.0f", "1") if op in ("mul", "div") else ("0.0f", "0")
        return (_is(args[1], *neutral) and first.shape == shape) or (
            op in ("mul", "add") and _is(first, *neutral) and args[1].shape == shape
        )
    if op == "bitwise_and":
        return _is(args[1].args[0] if args[1].op == "broadcast" else args[1], "true") and first.shape == shape
    if op == "broadcast":
        return first.shape == shape
    if op == "transpose":
        return attrs[0] == tuple(range(len(shape)))
    if op == "slice":
        return first.shape == shape
    return op == "cast" and first.kind == kind


def _is(node: Node, *texts: str) -> bool:
    return node.op == "number" and node.attrs[0] in texts


def merged_dims(node: Node) -> tuple[int, ...]:
    """Return the leading dimensions that were merged into the first, or nothing."""
    return node.args[0].shape[: int(node.attrs[1]) + 1] if node.op == "collapse" and node.attrs[0] == 0 else ()  # type: ignore[arg-type]


def in_order(outputs: tuple[Node, ...]) -> list[Node]:
    """Return all nodes, arguments first; networks are deeper than Python lets functions call themselves."""
    order: dict[Node, None] = {}
    waiting = [*reversed(outputs)]
    while waiting:
        node = waiting[-1]
        missing = [arg for arg in node.args if arg not in order]
        waiting += reversed(missing)
        if not missing:
            order[waiting.pop()] = None
    return list(order)


def kept_values(outputs: Iterable[Node]) -> list[Node]:
    """Return the values that get loops and a buffer of their own, arguments first.

    These are reductions, scans, stores, tables, outputs, and values that would be computed again for each use or each
    element, or whose expression would be long. Whether places of windows lie in the input is never one: equal
    convolutions share it, and it has an element for each product.
    """
    order = in_order(outputs := tuple(outputs))
    uses, again = Counter(outputs), set[Node]()
    for node in reversed(order):
        for arg in node.args:
            uses[arg] += uses[node] if node.op in VIEWS else 1
            wider = prod(node.shape) > prod(arg.shape) and node.op not in STORES
            if node.op in TRIANGULAR | {"matmul", "recurrence"} or wider or (node.op in VIEWS and node in again):
                again.add(arg)
    kept, depths, lookups = list[Node](), dict[Node, int](), dict[Node, int]()
    windows = set[Node]()
    for node in order:
        depth = max((depths[arg] for arg in node.args), default=0) + node.pointwise
        lookup = max((lookups[arg] for arg in node.args[node.op == "index" :]), default=0) + (node.op == "index")
        if node.op == "inside" or (node.args and windows.issuperset(node.args)):
            windows.add(node)
        repeated = node in outputs or (node not in windows and (node in again or uses[node] > 1))
        chained = (lookup > 1 and node.op == "index" and uses[node] > 1) or depth > _DEEPEST
        if node.op in KEPT or (node.pointwise and repeated) or chained:
            kept.append(node)
            depth = lookup = 0
        depths[node], lookups[node] = depth, lookup
    return kept


def _broadcast_shape(*shapes: Shape) -> Shape:
    """Return the shape that others broadcast to; numpy refuses those beyond 2**63 elements, as of convolutions."""
    columns = zip_longest(*(shape[::-1] for shape in shapes), fillvalue=1)
    return tuple(next((size for size in column if size != 1), 1) for column in columns)[::-1]
