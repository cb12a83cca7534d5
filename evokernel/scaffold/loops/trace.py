"""Trace of a PyTorch reference without data, decomposed by torch into primitive operations."""

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any
from unittest import mock

import torch
from torch._decomp import decomposition_table
from torch.autograd.function import FunctionCtx
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx

from evokernel.scaffold.decompositions.complex_pairs import complex_as_pairs
from evokernel.scaffold.decompositions.library_operations import DECOMPOSITIONS
from evokernel.scaffold.decompositions.loop_rules import LOOP_RULES
from evokernel.scaffold.loops.constant_tensors import held_numbers
from evokernel.scaffold.loops.operation_graph import Node
from evokernel.scaffold.loops.reduction_sizes import ReductionSize, with_reduction_sizes
from evokernel.scaffold.loops.torch_operations import OperationConverter
from evokernel.scaffold.operation.sizes import FIRST, NEAR, SECOND, NotGeneral, NotGeneralSize, Rule, SymbolicSizes
from evokernel.scaffold.operation.trial import without_data

Call = Callable[[dict[str, Any]], Any]
_aten = torch.ops.aten
# Not decomposed: the decompositions read worse than the operation, or are unusual loops.
_WHOLE = (
    _aten.relu.default,
    _aten.clamp.default,
    _aten.clamp_min.default,
    _aten.clamp_max.default,
    _aten.slice.Tensor,
    _aten.select.int,
    _aten.split.Tensor,
    _aten.split_with_sizes.default,
    _aten.unbind.int,
    _aten.sort.stable,
    _aten.topk.default,
    _aten.cumsum.default,
    _aten.cumprod.default,
    _aten.max_pool2d_with_indices.default,
    _aten.max_pool3d_with_indices.default,
    _aten.avg_pool2d.default,
    _aten.avg_pool3d.default,
)


@dataclass(frozen=True)
class Traced:
    """Outputs of a reference as nodes."""

    outputs: tuple[Node, ...]
    sizes: SymbolicSizes
    """Completed by the two traces."""
    exact_on_integers: bool
    """True where integer inputs give exact results."""


_SPLITS = (_aten.split.Tensor, _aten.split_with_sizes.default)


def _copied(into: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """Return what `into.copy_(source)` leaves there."""
    return source.to(into.dtype).expand_as(into)


def trace(
    call: Call,
    shapes: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]],
    sizes: SymbolicSizes,
    *,
    dtypes: Mapping[str, torch.dtype] | None = None,
) -> tuple[Any, Any]:
    """Return the primitive operations of a reference at the first and at the second sizes.

    Args:
        call: the reference, called with tensors by name.
        shapes: first and second shape of each input.
        sizes: the dimensions; it learns the sizes that follow from them.
        dtypes: of the inputs, by name; float32 where left out.

    Raises:
        NotGeneral: the traces differ in more than sizes, or the reference cannot be traced without data.
    """
    first, second = (
        _graph(call, {name: pair[place] for name, pair in shapes.items()}, dtypes or {}) for place in (0, 1)
    )
    if [str(node.target) for node in first] != [str(node.target) for node in second]:
        raise NotGeneral("the reference computes differently at different sizes")
    _learn(first, second, sizes)
    return first, second


def _learn(first: Any, second: Any, sizes: SymbolicSizes) -> None:
    for one, other in zip(first, second, strict=True):
        for extent, extent_2 in _extent_pairs(one, other):
            sizes.learn(extent, extent_2)


def _extent_pairs(one: Any, other: Any) -> Iterator[tuple[int, int]]:
    """Yield the extents of a value in two traces."""
    for pair in zip(_shapes(one), _shapes(other), strict=True):
        yield from zip(*pair, strict=True)


def settled(
    graphs: tuple[Any, Any],
    sizes: SymbolicSizes,
    call: Call,
    further: Sequence[tuple[Mapping[str, int], Mapping[str, tuple[int, ...]]]],
    *,
    dtypes: Mapping[str, torch.dtype],
) -> SymbolicSizes:
    """Return sizes whose rules hold at further dimensions, too: two traces fit several rules for halves of halves, and
    a difference of sizes may look like another one less some number.

    Args:
        graphs: both traces.
        sizes: as they have learnt them.
        call: the reference.
        further: dimensions, and shapes of the inputs at them.
        dtypes: of the inputs, by name.

    Raises `NotGeneralSize` where no simple rule is left.
    """
    if all(each.divisor == 1 and abs(each.offset) <= NEAR for each in sizes.quotients.values()):
        return sizes
    found = list[tuple[Mapping[str, int], dict[int, int]]]()
    for dims, shapes in further:
        with suppress(NotGeneral):  # not every operation takes sizes of every kind
            pairs = zip(graphs[0], _graph(call, shapes, dtypes), strict=True)
            found.append((dims, {a: b for one, other in pairs for a, b in _extent_pairs(one, other)}))
    while wrong := {each for dims, due in found for each in _wrong(sizes, dims, due)}:
        sizes = SymbolicSizes(sizes.names, wrong={*sizes.wrong, *wrong})
        _learn(*graphs, sizes)
    return sizes


def _wrong(sizes: SymbolicSizes, dims: Mapping[str, int], due: Mapping[int, int]) -> Iterator[tuple[int, Rule]]:
    """Yield the rules, by their size in the first trace, that are the first to differ from what is due."""
    off = {size for size, extent in due.items() if sizes.depends(size) and sizes.at(size, dims) != extent}
    yield from ((size, q) for size, q in sizes.quotients.items() if size in off and not off & {q.base, q.other})
    yield from ((size, factors) for size, factors in sizes.products.items() if size in off and not off & {*factors})


def to_graph(first: Any, second: Any, sizes: SymbolicSizes) -> Traced:
    """Return the traced operations as nodes.

    Raises `NotGeneral` if an operation has no plain loop yet; the message names it.
    """
    with_reduction_sizes(first, sizes)
    converter = OperationConverter(sizes, numbers=_size_numbers(first, second, sizes))
    outputs: tuple[Node, ...] = ()
    for node in first:
        if node.op == "output":
            flat = node.args[0] if isinstance(node.args[0], (tuple, list)) else (node.args[0],)
            outputs = tuple(converter.value(item) for item in flat)
        else:
            converter.take(node)
    return Traced(outputs, sizes, converter.exact)


def flop_terms(first: Any) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield, for each operation, its floating-point operations per element and its extents."""
    for node in first:
        out = _shapes(node)
        if node.op != "call_function" or not out or str(node.target) in _FREE or _by_one(node):
            continue
        inputs = [shape for item in node.all_input_nodes for shape in _shapes(item)]
        name = str(node.target)
        if name in _PRODUCTS:
            yield 2, (*out[0], inputs[0][-1])
        elif name == "aten.convolution.default":
            yield 2, (*out[0], *inputs[1][1:])
        elif name == _RECURRENT:
            yield 2, (*inputs[0], inputs[1][-1])
        elif name in _TRIANGULAR:
            yield 1, (*out[0], inputs[0][-1])
        elif _is_float(node) or name.startswith("aten.arg"):
            yield 1, max([*out, *inputs], key=prod)


def reduction_terms(first: Any) -> Iterator[tuple[int, ...]]:
    """Yield the summed extents of each operation that sums."""
    for node in first:
        inputs = [shape for item in node.all_input_nodes for shape in _shapes(item)]
        name = str(node.target)
        if name in _PRODUCTS or name in _TRIANGULAR:
            yield inputs[0][-1:]
        elif name == "aten.convolution.default":
            yield inputs[1][1:]
        elif name == _RECURRENT:
            yield inputs[1][-1:]
        elif name in ("prims.sum.default", "prims.var.default"):
            yield tuple(inputs[0][dim] for dim in node.args[1])
        elif name in ("aten.cumsum.default", "aten.cumprod.default") and inputs[0]:
            yield (inputs[0][node.args[1]],)
        elif name == "aten.scatter_add.default" and inputs[0]:
            yield (_shapes(node.args[2])[0][node.args[1]],)
        elif name == "aten.index_put.default" and node.args[3:] == (True,):
            yield max((_shapes(item)[0] for item in node.args[1] if item is not None), key=prod)


def extents(first: Any) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of all values, those left out that only show another one in full."""
    return tuple(dict.fromkeys(shape for node in first if str(node.target) not in _FREE for shape in _shapes(node)))


def _by_one(node: Any) -> bool:
    """Say whether an operation multiplies with one, as torch's rules do for default alpha and beta."""
    return any(isinstance(item, float) and item == 1.0 for item in node.args) and "mul" in str(node.target)


def _is_float(node: Any) -> bool:
    value = node.meta["val"]
    values = value if isinstance(value, (tuple, list)) else (value,)
    return any(isinstance(item, torch.Tensor) and item.is_floating_point() for item in values)


_RECURRENT = "evokernel.recurrence.default"
_PRODUCTS = ("aten.mm.default", "aten.bmm.default", "aten._int_mm.default")
_TRIANGULAR = ("aten.linalg_cholesky_ex.default", "aten.linalg_solve_triangular.default")
_FREE = frozenset(
    f"prims.{name}.default"
    for name in [
        "broadcast_in_dim",
        "transpose",
        "squeeze",
        "collapse_view",
        "split_dim",
        "clone",
        "convert_element_type",
        "where",
        "cat",
    ]
) | {"aten.slice.Tensor", "aten.select.int", "aten.full_like.default", "aten.index.Tensor", "aten.gather.default"}


def _graph(call: Call, shapes: Mapping[str, tuple[int, ...]], dtypes: Mapping[str, torch.dtype]) -> list[Any]:
    names = list(shapes)
    table: dict[Any, Any] = {op: rule for op, rule in decomposition_table.items() if op not in _WHOLE}
    table |= {op: rule for op, rule in DECOMPOSITIONS.items() if op not in _WHOLE}
    table |= LOOP_RULES | {_aten.copy.default: _copied}
    table[_aten._safe_softmax.default] = lambda x, dim, dtype=None: torch.softmax(x, dim)
    table[_aten.as_strided.default] = _another_shape
    table[_aten.squeeze_.dim] = lambda x, dim: x.squeeze(dim)  # of a product by a vector

    def positional(*tensors: Any) -> Any:
        with complex_as_pairs():
            return call(dict(zip(names, tensors, strict=True)))

    try:
        with without_data(), _forward_alone():
            empty = [torch.empty(shape, dtype=dtypes.get(name, torch.float32)) for name, shape in shapes.items()]
            module = make_fx(functionalize(positional), decomposition_table=table)(*empty)
    except Exception as error:
        raise NotGeneral(f"the reference cannot be traced ({type(error).__name__}: {error})") from error
    _settle_copies(module.graph)
    for node in module.graph.find_nodes(op="call_function", target=_aten._linalg_check_errors.default):
        module.graph.erase_node(node)
    for node in reversed(module.graph.nodes):  # changes of memory that no result holds, as of running statistics
        if node.target is _aten.copy_.default and not node.users:
            module.graph.erase_node(node)
    module.graph.eliminate_dead_code()
    return list(module.graph.nodes)


@contextmanager
def _forward_alone() -> Iterator[None]:
    """Let functions with gradients of their own compute forward, which torch would not trace."""

    def apply(kind: Any, *args: Any, **kwargs: Any) -> Any:
        if kind.setup_context is not torch.autograd.Function.setup_context:
            return kind.forward(*args, **kwargs)
        context = FunctionCtx()
        context.needs_input_grad = (False,) * len(args)
        return kind.forward(context, *args, **kwargs)

    with mock.patch.object(torch.autograd.Function, "apply", classmethod(apply)):
        yield


def _settle_copies(graph: Any) -> None:
    """Let a copy into memory that nobody looks at afterwards be what is copied.

    Some operations are made of ones that write in place, which shows only when they are taken apart.
    """
    places = {node: place for place, node in enumerate(graph.nodes)}
    for node in graph.nodes:
        if node.target is not _aten.copy_.default or not node.users:
            continue
        into, source = node.args[:2]
        others = [user for user in into.users if user is not node]
        alone = not _is_view(into) or _is_part(into)
        private = alone and not any(map(_is_view, others)) and all(places[user] < places[node] for user in others)
        one, other = into.meta["val"], source.meta["val"]
        if private and one.shape == other.shape and one.dtype == other.dtype:
            node.replace_all_uses_with(source)
            graph.erase_node(node)


def _is_part(node: Any) -> bool:
    """Say whether a value is a part of one that is seen through its parts alone, each of them once."""
    split = node.args[0] if node.target is operator.getitem else None
    if split is None or split.target not in _SPLITS or _is_view(split.args[0]):
        return False
    parts = [user.args[1] for user in split.users]
    return len(split.args[0].users) == 1 and len(parts) == len({*parts})


def _is_view(node: Any) -> bool:
    """Say whether what an operation returns may be memory of what it is given."""
    schema = getattr(node.target, "_schema", None)
    return schema is None or any(result.alias_info is not None for result in schema.returns)


def _shapes(node: Any) -> list[tuple[int, ...]]:
    value = node.meta.get("val")
    values = value if isinstance(value, (tuple, list)) else (value,)
    return [tuple(item.shape) for item in values if isinstance(item, torch.Tensor)]


def _size_numbers(first: Any, second: Any, sizes: SymbolicSizes) -> dict[float, str]:
    """Return the C++ text of each number that follows from sizes."""
    found: dict[float, str] = {}
    for one, other in zip(first, second, strict=True):
        if str(one.target).startswith("prims.") and one.target.__name__ in _SHAPED:
            continue
        given, given_2 = ([*_numbers(each.args)] for each in (one, other))
        if one.op == "get_attr":
            given, given_2 = ([*_numbers(held_numbers(each))] for each in (one, other))
            if len(given) != len(given_2):
                raise NotGeneral("the reference computes differently at different sizes")
        for a, b in zip(given, given_2, strict=True):
            if a != b and not math.isnan(a) and a not in found:
                found[a] = a.text if isinstance(a, ReductionSize) else _rule(a, b, sizes)
    return found


def _another_shape(x: torch.Tensor, size: Any, stride: Any, offset: int | None = None) -> Any:
    """Return the elements of a contiguous tensor in another shape, or looked up, as diagonals and frames are."""
    dense = torch.empty(size, device="meta").stride()
    if not x.is_contiguous():
        return NotImplemented
    if tuple(stride) != dense or offset or math.prod(size) != x.numel():
        places = torch.full((), offset or 0, dtype=torch.int64, device=x.device)
        for extent, step in zip(size, stride, strict=True):
            places = places.unsqueeze(-1) + torch.arange(extent, device=x.device) * step
        return x.reshape(-1)[places]
    if len(size) == 1 < x.ndim:  # torch's rule for another shape comes back here from these two
        return torch.ops.prims.collapse_view(x, 0, x.ndim - 1)
    return torch.ops.prims.split_dim(x, 0, size[0]) if len(size) == 2 > x.ndim == 1 else x.reshape(size)


_SHAPED = frozenset(
    f"{name}.default" for name in ["broadcast_in_dim", "transpose", "squeeze", "collapse_view", "split_dim", "iota"]
)


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from _numbers(item)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield value


_RULES: tuple[tuple[Callable[[float], float], Callable[[float], float], str], ...] = (
    (lambda c: c, lambda n: n, "{}"),
    (lambda c: 1 / c, lambda n: 1 / n, "1.0f / {}"),
    (lambda c: 2 * c, lambda n: n / 2, "0.5f * {}"),
    (lambda c: c**2, math.sqrt, "std::sqrt({})"),
    (lambda c: c**-2, lambda n: n**-0.5, "1.0f / std::sqrt({})"),
    (lambda c: c**-4, lambda n: n**-0.25, "1.0f / std::sqrt(std::sqrt({}))"),
    (lambda c: c**4, lambda n: n**0.25, "std::sqrt(std::sqrt({}))"),
)


def _rule(a: float, b: float, sizes: SymbolicSizes) -> str:
    for back, forth, text in _RULES:
        try:
            size, size_2 = round(back(a)), round(back(b))
            close = math.isclose(forth(size), a, rel_tol=1e-12) and math.isclose(forth(size_2), b, rel_tol=1e-12)
        except (OverflowError, ZeroDivisionError):
            continue
        if close:
            with suppress(NotGeneral):
                sizes.learn(size, size_2)
                return text.format(f"static_cast<float>({sizes.text(size)})")
    for (name, size, size_2), more in product(zip(sizes.names, FIRST, SECOND, strict=False), (0, -1, 1)):
        for _, forth, text in _RULES:  # a number times one of these, as in pi / n, or 2 / (n - 1)
            factor = a / forth(size + more)
            if factor and math.isclose(factor, b / forth(size_2 + more), rel_tol=1e-12):
                return f"{factor!r}f * ({text.format(f'static_cast<float>({name}{more:+})'.replace('+0', ''))})"
    raise NotGeneralSize(f"a number follows from the sizes in a way that is not known here ({a} and {b})")
