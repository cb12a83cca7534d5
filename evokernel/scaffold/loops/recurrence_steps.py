"""A recurrent layer in plain loops: its node in the graph, and what each step does in C++."""

from collections.abc import Sequence
from typing import Any

from evokernel.scaffold.decompositions.recurrent_layers import GATES
from evokernel.scaffold.loops.operation_graph import Node, OperationGraph, Shape


def recurrence_node(graph: OperationGraph, given: Sequence[Any], kind: str, shape: Shape) -> Node:
    """Return the states of a recurrent layer, given the arguments of `recurrence`; its gates are apart."""
    count, width = GATES[kind], given[1].shape[1]
    apart = []
    for each, dim in zip(given[:3], (2, 0, 0), strict=True):
        wide = (*each.shape[:dim], count, width, *each.shape[dim + 1 :])
        apart.append(graph.node("split", (each,), attrs=(dim,), shape=wide, kind=each.kind))
    return graph.node("recurrence", (*apart, given[3]), attrs=(kind,), shape=shape, kind=given[0].kind)


def step_lines(kind: str, own: Sequence[str], given: Sequence[str], states: Sequence[str]) -> list[str]:
    """Return what a step does for one hidden element in C++: it leaves `value`, and `cell` for an LSTM.

    Args:
        kind: a key of `GATES`.
        own: what the hidden state gives to the gates.
        given: what the inputs give to them.
        states: the element before the step, for each state.
    """
    both = [f"{one} + {other}" for one, other in zip(own, given, strict=True)]
    over = [f"(1.0f + std::exp(-({each})))" for each in both]  # a sigmoid is one over that
    if kind == "lstm":
        cell = f"{states[1]} / {over[1]} + std::tanh({both[2]}) / {over[0]}"
        return [f"const float cell = {cell};", f"const float value = std::tanh(cell) / {over[3]};"]
    if kind == "gru":
        new = f"const float fresh = std::tanh({given[2]} + {own[2]} / {over[0]});"
        return [new, f"const float value = fresh + ({states[0]} - fresh) / {over[1]};"]
    if kind == "rnn_tanh":
        return [f"const float value = std::tanh({both[0]});"]
    return [f"const float value = std::max<float>({both[0]}, 0.0f);"]  # which keeps NaN, as torch does
