"""Values that forward saves for backward: a choice between memory and work."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch._decomp import decomposition_table
from torch.utils.flop_counter import flop_registry

from evokernel.scaffold.gradients.joint_graph import GraphNode, JointGraph, arguments_of, value_of

SaveChoice = Literal["auto", "inputs", "outputs", "all"]
"""`inputs`: nothing but inputs; `outputs`: results, too; `all`: all that autograd saves; `auto`: results, and what sums
and products give along an axis, while operations on single elements, and single numbers, are done again."""
_LARGER = 4
"""A value with an ancestor this many times as large is small: the result of a sum along an axis, or follows from it."""
_COPIES = (
    "aten._to_copy",
    "aten.clone",
    "aten.where",
    "aten.expand",
    "aten.zeros_like",
    "aten.ones_like",
    "aten.full_like",
)


def saved_values(graph: JointGraph, choice: SaveChoice) -> tuple[GraphNode, ...]:
    """Return the values of the function, beside its inputs, that the gradients are computed from."""
    rules: dict[str, Callable[[GraphNode], bool]] = {
        "inputs": lambda node: False,
        "outputs": lambda node: node in graph.outputs,
        "all": lambda node: True,
        "auto": lambda node: (
            bool(value_of(node).shape) and (node in graph.outputs or _is_small(node) or not _is_cheap(node))
        ),
    }
    return cut(graph, rules[choice])


def to_decompose(graph: JointGraph) -> list[Any]:
    """Return operations that hide small values behind a large one: logarithms of softmax, for example.

    Those whose floating-point operations torch counts are products, and stay.
    """
    found = []
    for node in saved_values(graph, "auto"):
        source = node.args[0] if "getitem" in str(node.target) else node
        hidden = source.target in decomposition_table and source.target.overloadpacket not in flop_registry
        if node not in graph.outputs and not _is_small(node) and hidden:
            found.append(source.target)
    return found


def cut(graph: JointGraph, saves: Callable[[GraphNode], bool]) -> tuple[GraphNode, ...]:
    """Walk back from the gradients; return the first values of the function that may be saved."""
    found: dict[GraphNode, None] = {}
    waiting: list[GraphNode] = list(graph.gradients.values())
    seen = set[GraphNode]()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if node in graph.forward and isinstance(value_of(node), torch.Tensor) and not _is_view(node) and saves(node):
            found[node] = None
        else:
            waiting += arguments_of(node)
    return tuple(node for node in list(next(iter(graph.inputs.values())).graph.nodes) if node in found)


def needed_nodes(ends: Sequence[GraphNode], stops: Sequence[GraphNode]) -> list[GraphNode]:
    """Return the operations behind some values, arguments first, as far as other values."""
    order: list[GraphNode] = []
    seen = set[GraphNode](stops)
    waiting = [(node, False) for node in reversed(ends)]
    while waiting:
        node, ready = waiting.pop()
        if ready:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            waiting.append((node, True))
            waiting += [(each, False) for each in arguments_of(node)]
    return order


def _is_view(node: GraphNode) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and any(each.alias_info is not None for each in schema.returns)


def _is_cheap(node: GraphNode) -> bool:
    """Say whether an operation is done on single elements, or makes a tensor from nothing."""
    tags = getattr(node.target, "tags", ())
    return torch.Tag.pointwise in tags or str(node.target).startswith(_COPIES) or not list(arguments_of(node))


def _is_small(node: GraphNode) -> bool:
    """Say whether a value is much smaller than one that it is computed from."""
    own, waiting, seen = _count(node), [node], set[GraphNode]()
    while waiting:
        each = waiting.pop()
        if each in seen:
            continue
        seen.add(each)
        if _count(each) >= _LARGER * own:
            return True
        waiting += arguments_of(each)
    return False


def _count(node: GraphNode) -> int:
    value = value_of(node)
    if not isinstance(value, torch.Tensor):
        return 0
    count = 1
    for extent in value.shape:
        count *= extent.node.hint if isinstance(extent, torch.SymInt) else extent
    return count
