"""Tensors that a reference makes of numbers, as `torch.tensor(0.0)`, or that its file holds."""

from collections.abc import Callable
from typing import Any

import torch

from evokernel.scaffold.loops.operation_graph import Kind, Node, OperationGraph
from evokernel.scaffold.operation.sizes import NotGeneral

_FEW = 64
"""Elements that are written out, at most."""


def held_numbers(node: Any) -> list[Any]:
    """Return the elements of the tensor that a node of a trace holds, in the order of memory.

    Raises `NotGeneral` if they are many.
    """
    values: torch.Tensor = getattr(node.graph.owning_module, node.target)
    if values.numel() > _FEW:
        raise NotGeneral(f"a tensor of {values.numel()} constants has no naive loop yet")
    made: list[Any] = values.flatten().tolist()
    return made


def constant_tensor(graph: OperationGraph, node: Any, kind: Kind, spell: Callable[[Any, Kind], Node]) -> Node:
    """Return the tensor that a node of a trace holds; `spell` writes a number. Raises as `held_numbers`."""
    numbers, shape = [spell(item, kind) for item in held_numbers(node)], tuple(node.meta["val"].shape)
    if len({*numbers}) == 1:
        return graph.broadcast(numbers[0], shape, ())
    return graph.node("table", tuple(numbers), shape=shape, kind=kind)
