"""Text of forward and backward as functions of PyTorch, from a joint graph."""

import math
import operator
import re
from collections.abc import Mapping, Sequence
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch.utils._sympy.printers import PythonPrinter

from evokernel.errors import TaskError
from evokernel.scaffold.gradients.joint_graph import GraphNode, JointGraph, plain, value_of
from evokernel.scaffold.gradients.saved_values import needed_nodes

_RESERVED = frozenset({"aten", "torch", "math", "run", "reference", "original"})
_VIEWS = ("aten.view.default", "aten._unsafe_view.default")


class ProgramText:
    """Writer of one function.

    Args:
        given: arguments by name, in calling order.
        taken: names that must not be used.
    """

    def __init__(self, given: Mapping[str, GraphNode], *, taken: Sequence[str] = ()) -> None:
        self._given = dict(given)
        self._names: dict[GraphNode, str] = {}
        self._used = {*taken, *given, *_RESERVED}
        self._lines: list[str] = []
        self._like = next((name for name, node in given.items() if value_of(node).is_floating_point()), "")
        self._sizes: dict[sympy.Symbol, str] = {}
        alike: dict[sympy.Symbol, list[str]] = {}
        for name, node in given.items():
            for axis, extent in enumerate(value_of(node).shape):
                if isinstance(extent, torch.SymInt) and isinstance(extent.node.expr, sympy.Symbol):
                    alike.setdefault(extent.node.expr, []).append(f"{name}.shape[{axis}]")
        self._sizes.update((symbol, texts[0]) for symbol, texts in alike.items())
        self._lines += [f"_same({', '.join(texts)})" for texts in alike.values() if len(texts) > 1]
        for name, node in given.items():
            self._names[node] = name
            if not value_of(node).shape:  # a kernel takes tensors with a dimension at least
                self._names[node] = self._fresh(f"{name}_value")
                self._lines.append(f"{self._names[node]} = aten.squeeze.dim({name}, 0)")

    def function(self, name: str, results: Sequence[GraphNode], *, purpose: str) -> str:
        """Return the function. Raises `TaskError` where a size or a number cannot be written."""
        for node in needed_nodes(results, list(self._given.values())):
            self._take(node)
        returned = ", ".join(self._result(node) for node in results)
        body = "\n".join(f"    {line}" for line in (f'"""{purpose}"""', *self._lines, f"return {returned}"))
        return f"def {name}({', '.join(self._given)}):\n{body}\n"

    def _take(self, node: GraphNode) -> None:
        if node.op == "get_attr":
            value = getattr(node.graph.owning_module, node.target)
            text = f"torch.tensor({value.item()!r}, dtype={self._text(value.dtype)}, device={self._like}.device)"
            self._define(node, text if value.ndim == 0 else f"{text}.reshape({tuple(value.shape)})")
        elif node.target is operator.getitem:
            self._define(node, f"{self._names[node.args[0]]}[{node.args[1]}]")
        else:
            given = [self._text(each) for each in node.args]
            given += [f"{key}={self._text(each)}" for key, each in node.kwargs.items()]
            self._define(node, self._reshaped(node) or f"{node.target}({', '.join(given)})")

    def _reshaped(self, node: GraphNode) -> str:
        """Return a change of shape as text, or nothing. Saved values are contiguous, whatever they were before."""
        if str(node.target) not in _VIEWS:
            return ""
        before, after = value_of(node.args[0]).shape, list(value_of(node).shape)
        thin = [axis for axis, extent in enumerate(before) if isinstance(extent, int) and extent == 1]
        if [extent for axis, extent in enumerate(before) if axis not in thin] == after:
            return f"aten.squeeze.dims({self._text(node.args[0])}, {thin})"
        return f"torch.reshape({self._text(node.args[0])}, {self._text(node.args[1])})"

    def _define(self, node: GraphNode, text: str) -> None:
        name = self._fresh(value_name(node))
        self._lines.append(f"{name} = {text}")
        self._names[node] = name

    def _result(self, node: GraphNode) -> str:
        name = self._names[node]
        shaped = name if value_of(node).shape else f"aten.unsqueeze.default({name}, 0)"
        return f"{shaped}.clone()" if name in self._given or node in self._given.values() else shaped

    def _text(self, value: Any) -> str:
        match value:
            case torch.fx.Node():
                return self._node_text(value)
            case list() | tuple():
                return f"[{', '.join(map(self._text, value))}]"
            case torch.dtype():
                return f"{self._like}.dtype" if value is torch.float64 and self._like else str(value)
            case torch.device():
                return f"{next(iter(self._given))}.device"
            case float() if not math.isfinite(value):
                return f'float("{value}")'
            case torch.SymInt() | torch.SymFloat():
                return self._size_text(value)
        return repr(value)

    def _node_text(self, node: GraphNode) -> str:
        node = plain(node)
        value = value_of(node)
        return self._names[node] if isinstance(value, (torch.Tensor, tuple, list)) else self._size_text(value)

    def _size_text(self, value: Any) -> str:
        if not isinstance(value, (torch.SymInt, torch.SymFloat)):
            return repr(value)
        expression = value.node.expr
        missing = expression.free_symbols - self._sizes.keys()
        if missing:
            raise TaskError("a size in the gradients follows from no tensor that backward gets; try --save all")
        shown = expression.xreplace({symbol: sympy.Symbol(text) for symbol, text in self._sizes.items()})
        text: str = PythonPrinter().doprint(shown)
        return text

    def _fresh(self, base: str) -> str:
        name = base
        for number in range(2, 10_000):
            if name not in self._used:
                break
            name = f"{base}_{number}"
        self._used.add(name)
        return name


def value_name(node: GraphNode) -> str:
    """Return a name for a value, after the operation that makes it."""
    if node.target is operator.getitem:
        return f"{value_name(node.args[0])}_{node.args[1]}"
    return re.sub(r"\W", "_", node.name).strip("_") or "value"


def backward_arguments(graph: JointGraph, saved: Mapping[str, GraphNode]) -> dict[str, GraphNode]:
    """Return the arguments of backward that it needs, by name: inputs, saved values, gradients that come in."""
    many = len(graph.outputs) > 1
    tangents = {
        f"grad_out{place if many else ''}": node
        for place, node in zip(graph.differentiable, graph.tangents, strict=True)
    }
    offered = {**graph.inputs, **saved, **tangents}
    nodes = needed_nodes(list(graph.gradients.values()), list(offered.values()))
    used = {plain(each) for node in nodes for each in node.all_input_nodes} | set(graph.gradients.values())
    sizes = {symbol for node in used for symbol in _symbols(value_of(node)) if node not in offered.values()}
    chosen = {name: node for name, node in offered.items() if node in used or name in tangents}
    for name, node in graph.inputs.items():  # one that backward reads for nothing but its shape
        told = {symbol for each in chosen.values() for symbol in _symbols(value_of(each))}
        if name not in chosen and sizes & _symbols(value_of(node)) - told:
            chosen[name] = node
    return {name: node for name, node in offered.items() if name in chosen}


def _symbols(value: Any) -> set[Any]:
    """Return the sizes in the shape of a tensor, or in a number."""
    extents = value.shape if isinstance(value, torch.Tensor) else [value]
    symbols = (each.node.expr.free_symbols for each in extents if isinstance(each, (torch.SymInt, torch.SymFloat)))
    return {symbol for each in symbols for symbol in each}
