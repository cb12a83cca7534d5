"""Conversion of torch's primitive operations to nodes of the graph."""

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch

from evokernel.scaffold.loops.constant_tensors import constant_tensor
from evokernel.scaffold.loops.index_operations import counted, gathered, in_steps, joined, looked_up, scattered, stored
from evokernel.scaffold.loops.loop_order import in_rows
from evokernel.scaffold.loops.narrow_numbers import FORMATS, SHORT, converted
from evokernel.scaffold.loops.operation_graph import (
    INTEGERS,
    NARROW,
    TRANSCENDENTAL,
    Kind,
    Node,
    OperationGraph,
    merged_dims,
)
from evokernel.scaffold.loops.recurrence_steps import recurrence_node
from evokernel.scaffold.loops.reductions import RUNNING_EXTREMES, extreme, ordered, running, running_extremes, variance
from evokernel.scaffold.loops.triangular import cholesky, solved, without_loop
from evokernel.scaffold.loops.window_operations import average_pooling, convolution, max_pooling
from evokernel.scaffold.operation.sizes import NotGeneral, SymbolicSizes
from evokernel.scaffold.operation.trial import dtype_name

_KINDS: dict[Any, Kind] = {
    torch.float32: "float",
    torch.float64: "float",  # written as double, see `seed.write_seed`
    **dict.fromkeys((torch.float16, torch.bfloat16), "float"),  # widened where they are read
    torch.int32: "int64_t",
    torch.int64: "int64_t",
    torch.int8: "int8_t",
    torch.uint8: "uint8_t",
    torch.bool: "bool",
    torch.float8_e4m3fn: "uint8_t",  # torch only moves and converts them
    torch.float8_e5m2: "uint8_t",
}
_ARITHMETIC = frozenset({"add", "sub", "mul", "div", "neg"})
_FUNCTIONS = TRANSCENDENTAL | {
    "abs", "atan2", "ceil", "floor", "fmax", "fmin", "fmod", "maximum", "minimum", "reciprocal", "remainder", "round",
    "sign", "trunc",
}  # fmt: skip
_LOGIC = frozenset({
    "lt", "le", "gt", "ge", "eq", "ne", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "isfinite",
    "signbit", "shift_left", "shift_right_arithmetic",
})  # fmt: skip
_INTEGER_SAFE = frozenset({"add", "sub", "mul", "neg", "relu", "maximum", "minimum", "abs", "sign", "where"}) | _LOGIC
_SAME = {"__lshift__": "shift_left", "__rshift__": "shift_right_arithmetic", "_neg_view": "neg"}
"""Operations that torch has under a second name."""


class OperationConverter:
    """Converter of traced operations to nodes, in the order of the trace.

    Args:
        sizes: meaning of the sizes in the trace.
        numbers: C++ text of the numbers that follow from sizes.
    """

    def __init__(self, sizes: SymbolicSizes, *, numbers: Mapping[float, str]) -> None:
        self._graph = OperationGraph()
        self._sizes = sizes
        self._numbers = numbers
        self._values: dict[Any, Node] = {}
        self._parts: dict[Any, list[Node]] = {}
        self.exact = True

    def value(self, item: Any) -> Node:
        """Return the node of an argument of a traced operation."""
        if isinstance(item, torch.fx.Node):
            return self._values[item]
        if isinstance(item, bool):
            return self._graph.number("true" if item else "false", "bool")
        if isinstance(item, (int, float)):
            return self._graph.number(self._literal(item))
        raise NotGeneral(f"an argument of type {type(item).__name__} has no naive loop yet")

    def take(self, node: Any) -> None:
        """Add one traced operation. Raises `NotGeneral` for one that is not known."""
        if node.op == "placeholder":
            shape = tuple(node.meta["val"].shape)
            name = f"input {len(self._values)}"
            self._values[node] = self._graph.node("input", (), attrs=(name,), shape=shape, kind=self._kind(node))
            return
        if node.op == "get_attr":
            self._values[node] = constant_tensor(self._graph, node, self._kind(node), self._constant)
            return
        if node.target is operator.getitem and node.args[0] in self._parts:
            self._values[node] = self._parts[node.args[0]][node.args[1]]
            return
        library, _, name = str(node.target).partition(".")
        name = name.partition(".")[0]
        name = _SAME.get(name, name)
        if (several := self._several(name, node)) is not None:
            self._parts[node] = several
            return
        made = self._pointwise(name, node) if library in ("prims", "aten") else None
        if made is None:
            rule = _RULES.get(f"{library}.{name}")
            if rule is None:
                raise NotGeneral(without_loop(library, name))
            made = rule(self, node)
        self._values[node] = made

    def _several(self, name: str, node: Any) -> list[Node] | None:
        """Return the values of an operation that has several; None for any other."""
        if name in ("split", "split_with_sizes", "unbind"):
            return self._parts_of(name, node)
        if name.startswith("max_pool"):
            shape, count = _shapes(node)[0], _axes(node)
            return max_pooling(self._graph, self._sizes, self.value(node.args[0]), node.args[1:], shape, count=count)
        if str(node.target) in ("aten.max.dim", "aten.min.dim"):
            return [self._extreme(node, f"{kind}{name}") for kind in ("a", "arg")]
        if name == "linalg_cholesky_ex":
            self.exact = False
            factor = cholesky(self._graph, self.value(node.args[0]), upper=node.kwargs.get("upper", False))
            return [factor, self._graph.broadcast(self._graph.number("0", "int64_t"), _shapes(node)[1], ())]
        if name in ("sort", "topk"):
            names = ("k", "dim", "largest") if name == "topk" else ("stable", "dim", "descending")
            how = {"dim": -1, "largest": True, **dict(zip(names, node.args[1:], strict=False)), **node.kwargs}
            largest = how["largest"] if name == "topk" else how.get("descending", False)
            return ordered(self._graph, self.value(node.args[0]), how["dim"], _shapes(node)[0], largest=largest)
        if str(node.target) in RUNNING_EXTREMES:
            return running_extremes(self._graph, str(node.target), self.value(node.args[0]), node.args[1])
        return None

    def _kind(self, node: Any) -> Kind:
        dtype = node.meta["val"].dtype
        if dtype not in _KINDS:
            raise NotGeneral(f"values of type {dtype} have no naive loop yet")
        return _KINDS[dtype]

    def _literal(self, item: float) -> str:
        if item in self._numbers:
            self.exact = False
            return str(getattr(item, "text", self._numbers[item]))
        if math.isinf(item):
            return "INFINITY" if item > 0 else "-INFINITY"
        if math.isnan(item):
            return "NAN"
        self.exact = self.exact and float(item).is_integer()
        return f"{float(item)!r}f"

    def _pointwise(self, name: str, node: Any) -> Node | None:
        if name not in _ARITHMETIC | _FUNCTIONS | _LOGIC | {"relu", "where"} or node.kwargs:
            return None
        kind = self._kind(node)
        beside = node.args[1:] if name == "where" else node.args
        args = [self._operand(item, beside) for item in node.args]
        if name != "where" and FORMATS.keys() & {dtype_name(each.meta["val"]) for each in node.all_input_nodes}:
            raise NotGeneral(f"{name} of numbers of eight bits has no naive loop yet")
        if name == "div" and kind in INTEGERS and args[1].op != "number":  # which may be 0, and end the process
            raise NotGeneral("the division of integers by integers of a tensor has no naive loop yet")
        self.exact = self.exact and name in _INTEGER_SAFE
        return self._graph.pointwise(name, *args, kind=kind)

    def _operand(self, item: Any, beside: Any) -> Node:
        """Return an operand; a number beside integers becomes an integer."""
        kinds = {self._values[other].kind for other in beside if isinstance(other, torch.fx.Node)}
        if isinstance(item, (int, float)) and not isinstance(item, bool) and kinds and kinds <= INTEGERS:
            return self._graph.number(self._sizes.text(int(item)), "int64_t")
        return self.value(item)

    def _view(self, op: str, node: Any, *attrs: Any) -> Node:
        source = self.value(node.args[0])
        return self._graph.node(op, (source,), attrs=attrs, shape=tuple(node.meta["val"].shape), kind=source.kind)

    def _broadcast(self, node: Any) -> Node:
        return self._view("broadcast", node, tuple(node.args[2]))

    def _by_dims(self, node: Any) -> Node:
        name = str(node.target).split(".")[1]
        return self._view("reverse" if name == "rev" else name, node, tuple(node.args[1]))

    def _collapse(self, node: Any) -> Node:
        return self._view("collapse", node, *node.args[1:]) if node.args[1] != node.args[2] else self._unchanged(node)

    def _split(self, node: Any) -> Node:
        return self._view("split", node, node.args[1])

    def _slice(self, node: Any) -> Node:
        given: list[Any] = [*node.args, *(None, 0, 0, None, 1)[len(node.args) :]]
        dim, start, step = given[1], given[2] or 0, given[4]
        source = self.value(node.args[0])
        start = self._sizes.place(source.shape[dim], start)
        if step != 1:
            return in_steps(self._graph, self._sizes, source, dim, (start, step, _shapes(node)[0][dim]))
        return self._view("slice", node, dim % len(source.shape), start)

    def _select(self, node: Any) -> Node:
        source, dim, place = self.value(node.args[0]), node.args[1], node.args[2]
        return self._element(source, dim % len(source.shape), self._sizes.place(source.shape[dim], place))

    def _parts_of(self, name: str, node: Any) -> list[Node]:
        """Return the values of an operation that splits a tensor along one dimension."""
        source = self.value(node.args[0])
        dim = node.args[1 if name == "unbind" else 2] if len(node.args) > (1 if name == "unbind" else 2) else 0
        dim = dim % len(source.shape)
        shapes = [tuple(item.shape) for item in node.meta["val"]]
        if name == "unbind":
            return [self._element(source, dim, place) for place in range(len(shapes))]
        starts = [sum(shape[dim] for shape in shapes[:place]) for place in range(len(shapes))]
        return [
            self._graph.node("slice", (source,), attrs=(dim, start), shape=shape, kind=source.kind)
            for start, shape in zip(starts, shapes, strict=True)
        ]

    def _element(self, source: Node, dim: int, place: int) -> Node:
        """Return the elements at one place of a dimension; drop the dimension."""
        thin = (*source.shape[:dim], 1, *source.shape[dim + 1 :])
        part = self._graph.node("slice", (source,), attrs=(dim, place), shape=thin, kind=source.kind)
        shape = (*thin[:dim], *thin[dim + 1 :])
        return self._graph.node("squeeze", (part,), attrs=((dim,),), shape=shape, kind=source.kind)

    def _joined(self, node: Any) -> Node:
        return joined(self._graph, self._sizes, list(map(self.value, node.args[0])), node.args[1], _shapes(node)[0])

    def _bits(self, node: Any) -> Node:
        source, kind = self.value(node.args[0]), self._kind(node)
        if not {source.kind, kind} <= NARROW:
            raise NotGeneral("the bits of numbers of several bytes as another type have no naive loop yet")
        return self._graph.node("cast", (source,), shape=source.shape, kind=kind)

    def _unchanged(self, node: Any) -> Node:
        return self.value(node.args[0])

    def _cast(self, node: Any) -> Node:
        source, kind = self.value(node.args[0]), self._kind(node)
        given, made = (dtype_name(each.meta["val"]) for each in (node.args[0], node))
        if {*FORMATS, *SHORT} & {given, made}:
            self.exact = False
            return converted(self._graph, source, given, made, kind)
        if source.op == "number" and kind == "float" and str(source.attrs[0]).isdecimal():
            return self._graph.number(f"{source.attrs[0]}.0f")
        return self._graph.node("cast", (source,), shape=source.shape, kind=kind)

    def _full(self, node: Any) -> Node:
        """Return equal elements: zeros for an empty tensor, which is used for its shape only, or filled."""
        name = str(node.target)
        item = 0 if "empty" in name else node.args[0 if "scalar_tensor" in name else 1]
        if item and dtype_name(node.meta["val"]) in FORMATS:
            raise NotGeneral("constants of eight bits have no naive loop yet")
        return self._graph.broadcast(self._constant(item, self._kind(node)), _shapes(node)[0], ())

    def _constant(self, item: Any, kind: Kind) -> Node:
        if kind == "float":
            return self._graph.number(self._literal(item))
        if kind == "bool":
            return self._graph.number(str(bool(item)).lower(), kind)
        return self._graph.number(self._sizes.text(item) if item in self._numbers else str(int(item)), kind)

    def _iota(self, node: Any) -> Node:
        start, step = node.kwargs["start"], node.kwargs["step"]
        return counted(self._graph, self._sizes, start, step, tuple(node.meta["val"].shape))

    def _reduce(self, node: Any) -> Node:
        name = str(node.target).split(".")[1]
        if self._kind(node) == "bool":
            raise NotGeneral(f"{name} over {node.meta['val'].dtype} has no naive loop yet")
        self.exact = self.exact and name != "prod"
        return self._graph.reduce(name, self.value(node.args[0]), tuple(node.args[1]))

    def _extreme(self, node: Any, op: str = "") -> Node:
        """Return the largest or smallest elements, or the places of the first of them."""
        name = str(node.target).split(".")[1]
        op = op or (name if name.startswith("arg") else f"a{name}")
        dim = node.args[1] if len(node.args) > 1 else None
        return extreme(self._graph, self.value(node.args[0]), op, dim, _shapes(node)[0])

    def _solved(self, node: Any) -> Node:
        self.exact, how = False, {"left": True, "unitriangular": False, **node.kwargs}
        return solved(self._graph, self.value(node.args[0]), self.value(node.args[1]), _shapes(node)[0], **how)

    def _scan(self, node: Any) -> Node:
        """Return running totals along one dimension."""
        name, (source, dim) = str(node.target).split(".")[1], node.args
        self.exact = self.exact and name == "cumsum"
        kind, made = self._kind(node), self.value(source)
        made = self._graph.node("cast", (made,), shape=made.shape, kind=kind)
        return running(self._graph, name, made, dim, kind=kind)

    def _var(self, node: Any) -> Node:
        self.exact = False
        return variance(self._graph, self._sizes, self.value(node.args[0]), tuple(node.args[1]), node.args[2])

    def _matmul(self, node: Any) -> Node:
        left, right = (self.value(item) for item in node.args)
        shape, kind = tuple(node.meta["val"].shape), self._kind(node)
        if 1 not in shape[-2:]:
            right = in_rows(self._graph, right)
        apart = merged_dims(left)
        if apart and (len(right.shape) == 2 or merged_dims(right) == apart):
            # Loops over the dimensions that torch merged, since a merged index would need divisions.
            right = right if len(right.shape) == 2 else right.args[0]
            inner = left.args[0].shape[-2] if len(shape) > 2 else None
            whole = (*left.args[0].shape[:-1], shape[-1])
            made = self._graph.node("matmul", (left.args[0], right), shape=whole, kind=kind)
            last = len(apart) - 1 if inner is not None else len(whole) - 2
            return self._graph.node("collapse", (made,), attrs=(0, last), shape=shape, kind=kind)
        return self._graph.node("matmul", (left, right), shape=shape, kind=kind)

    def _clamp(self, node: Any) -> Node:
        name = str(node.target).split(".")[1]
        bounds: list[Any] = [*node.args[1:], None, None]
        low, high = (None, bounds[0]) if name == "clamp_max" else bounds[:2]
        made = self.value(node.args[0])
        if low is not None:
            made = self._graph.pointwise("maximum", made, self._operand(low, node.args), kind=made.kind)
        if high is None:
            return made
        return self._graph.pointwise("minimum", made, self._operand(high, node.args), kind=made.kind)

    def _index(self, node: Any) -> Node:
        source, indices = node.args
        return looked_up(self._graph, self._sizes, self.value(source), self._given(indices))

    def _index_put(self, node: Any) -> Node:
        base, indices, values, add = (*node.args, False)[:4]
        given = self._given(indices)
        return stored(self._graph, self._sizes, self.value(base), given, self.value(values), add=add)

    def _given(self, items: Any) -> list[Node | None]:
        return [None if item is None else self.value(item) for item in items]

    def _gather(self, node: Any) -> Node:
        source, dim, index = node.args[:3]
        return gathered(self._graph, self.value(source), dim, self.value(index))

    def _scatter(self, node: Any) -> Node:
        base, dim, index, values, *how = node.args
        if node.kwargs.get("include_self") is False or how[1:] == [False]:
            raise NotGeneral("a scatter that leaves out what was there has no naive loop yet")
        how = how or [node.kwargs.get("reduce", "sum" if "scatter_add" in str(node.target) else "")]
        reduction = {"add": "sum", "multiply": "prod"}.get(how[0], how[0])
        source = self.value(base)
        into = self._constant(values, source.kind) if isinstance(values, (int, float)) else self.value(values)
        return scattered(self._graph, source, dim, self.value(index), into, how=reduction)

    def _recurrence(self, node: Any) -> Node:
        self.exact = False
        return recurrence_node(self._graph, self._given(node.args[:4]), node.args[4], _shapes(node)[0])

    def _convolution(self, node: Any) -> Node:
        return convolution(self._graph, self._given(node.args[:3]), node.args[3:], tuple(node.meta["val"].shape))

    def _average_pool(self, node: Any) -> Node:
        self.exact = False
        return average_pooling(
            self._graph, self.value(node.args[0]), node.args[1:], _shapes(node)[0], count=_axes(node)
        )


def _shapes(node: Any) -> list[tuple[int, ...]]:
    value = node.meta["val"]
    return [tuple(item.shape) for item in (value if isinstance(value, (tuple, list)) else (value,))]


def _axes(node: Any) -> int:
    return 3 if "3d" in str(node.target) else 2


_OPERATIONS: dict[Callable[[OperationConverter, Any], Node], str] = {
    OperationConverter._broadcast: "prims.broadcast_in_dim",
    OperationConverter._by_dims: "prims.transpose prims.squeeze prims.rev",
    OperationConverter._collapse: "prims.collapse_view",
    OperationConverter._split: "prims.split_dim",
    OperationConverter._joined: "prims.cat",
    OperationConverter._slice: "aten.slice",
    OperationConverter._select: "aten.select",
    OperationConverter._unchanged: "prims.clone prims.view_of",
    OperationConverter._bits: "aten.view",  # as another type, which here takes one byte too
    OperationConverter._cast: "prims.convert_element_type",
    OperationConverter._full: (
        "aten.full aten.full_like prims.scalar_tensor aten.scalar_tensor "
        "aten.empty aten.empty_permuted prims.empty_strided"
    ),
    OperationConverter._iota: "prims.iota",
    OperationConverter._reduce: "prims.sum prims.amax prims.amin prims.prod",
    OperationConverter._extreme: "aten.max aten.min aten.argmax aten.argmin",
    OperationConverter._scan: "aten.cumsum aten.cumprod aten.logcumsumexp",
    OperationConverter._index: "aten.index",
    OperationConverter._index_put: "aten.index_put",
    OperationConverter._gather: "aten.gather",
    OperationConverter._scatter: "aten.scatter aten.scatter_add aten.scatter_reduce",
    OperationConverter._var: "prims.var",
    OperationConverter._matmul: "aten.mm aten._int_mm aten.bmm",
    OperationConverter._solved: "aten.linalg_solve_triangular",
    OperationConverter._convolution: "aten.convolution",
    OperationConverter._recurrence: "evokernel.recurrence",
    OperationConverter._average_pool: "aten.avg_pool2d aten.avg_pool3d",
    OperationConverter._clamp: "aten.clamp aten.clamp_min aten.clamp_max",
}
_RULES = {operation: rule for rule, operations in _OPERATIONS.items() for operation in operations.split()}
