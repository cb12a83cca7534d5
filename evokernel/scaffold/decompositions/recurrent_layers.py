"""Recurrent layers as products for all steps at once, and one operation for what each step adds to the last.

torch writes such a layer step by step. A trace of that would hold for one number of steps only, and take minutes.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch.nn.functional import linear
from torch.overrides import TorchFunctionMode

from evokernel.scaffold.decompositions.function_rules import FUNCTION_RULES

Recurrence = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, str], torch.Tensor]
GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
"""Number of products of a step, by the kind of layer, which is the name of torch's operation."""


@torch.library.custom_op("evokernel::recurrence", mutates_args=())  # type: ignore[untyped-decorator]
def recurrence(
    gates: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, start: torch.Tensor, kind: str
) -> torch.Tensor:
    """Return the states before each step and after the last one: `[T + 1, S, B, H]`.

    Args:
        gates: what the inputs give to the gates in each step, `[T, B, G * H]`.
        weight: of the hidden state, `[G * H, H]`.
        bias: of that product, `[G * H]`.
        start: the states before the first step, `[S, B, H]`; two for an LSTM, the hidden one and that of the cell.
        kind: a key of `GATES`.
    """
    states = [start]
    for given in gates:
        hidden, own = states[-1][0], linear(states[-1][0], weight, bias)
        if kind == "lstm":
            enter, keep, new, leave = (given + own).chunk(4, -1)
            cell = keep.sigmoid() * states[-1][1] + enter.sigmoid() * new.tanh()
            states.append(torch.stack([leave.sigmoid() * cell.tanh(), cell]))
        elif kind == "gru":
            (reset, keep, new), mine = given.chunk(3, -1), own.chunk(3, -1)
            new = (new + (reset + mine[0]).sigmoid() * mine[2]).tanh()
            states.append(((hidden - new) * (keep + mine[1]).sigmoid() + new).unsqueeze(0))
        else:
            states.append(
                (given + own).tanh().unsqueeze(0) if kind == "rnn_tanh" else (given + own).relu().unsqueeze(0)
            )
    return torch.stack(states)


@recurrence.register_fake  # type: ignore[untyped-decorator]
def _shape(
    gates: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, start: torch.Tensor, kind: str
) -> torch.Tensor:
    rows, columns = gates.shape[1:]
    width = weight.shape[1]
    for one, other in ((columns, GATES[kind] * width), (start.shape[2], width), (start.shape[1], rows)):
        torch._check(one == other, lambda: "the sizes of a recurrent layer do not fit")
    torch._check(weight.shape[0] == columns and bias.shape[0] == columns)
    return gates.new_empty((gates.shape[0] + 1, *start.shape))


def recurrent_rules(step: Recurrence) -> Mapping[str, Callable[..., Any]]:
    """Return the rules by the name of torch's operation, with the arguments of that. They call `step` for each layer.

    A rule returns NotImplemented for sequences of different lengths, projections and dropout.
    """
    return {kind: partial(_layers, step, kind) for kind in GATES}


def _layers(  # noqa: PLR0913 - torch's own arguments
    step: Recurrence,
    kind: str,
    x: torch.Tensor,
    start: Any,
    weights: Any,
    biased: bool,
    layers: int,
    dropout: float,
    train: bool,
    both_ways: bool,
    batch_first: bool,
) -> Any:
    width, ways = 4 if biased else 2, 2 if both_ways else 1
    if not isinstance(weights, (list, tuple)) or len(weights) != width * layers * ways or (dropout and train):
        return NotImplemented
    starts = torch.stack([*start]) if kind == "lstm" else start.unsqueeze(0)
    torch._check(starts.shape[1] == layers * ways)
    x = x.transpose(0, 1) if batch_first else x
    ends = []
    for layer in range(layers):
        places = [ways * layer + way for way in range(ways)]
        made = [
            _one_way(step, kind, x, starts[:, place], weights[width * place :][:width], backward=way > 0)
            for way, place in enumerate(places)
        ]
        ends += [states for _, states in made]
        x = torch.cat([out for out, _ in made], -1) if both_ways else made[0][0]
    last = torch.stack(ends, 1)
    return (x.transpose(0, 1) if batch_first else x), *last


def _one_way(
    step: Recurrence,
    kind: str,
    x: torch.Tensor,
    start: torch.Tensor,
    weights: Sequence[torch.Tensor],
    *,
    backward: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the hidden states after each step, and the states after the last one."""
    of_input, of_state, *biases = weights
    input_bias, bias = biases or (None, torch.zeros_like(of_state[:, 0]))
    rows = (x.flip(0) if backward else x).flatten(0, 1)  # one product, however the inputs lie in memory
    gates = linear(rows, of_input, input_bias).unflatten(0, x.shape[:2])
    states = step(gates.contiguous(), of_state.contiguous(), bias.contiguous(), start.contiguous(), kind)
    out = states[1:, 0]
    return (out.flip(0) if backward else out), states[-1]


def _gru_cell(
    x: torch.Tensor,
    state: torch.Tensor,
    of_input: torch.Tensor,
    of_state: torch.Tensor,
    input_bias: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    given, own = linear(x, of_input, input_bias).chunk(3, -1), linear(state, of_state, bias).chunk(3, -1)
    reset, keep = ((one + other).sigmoid() for one, other in zip(given[:2], own[:2], strict=True))
    new = (given[2] + reset * own[2]).tanh()
    return (state - new) * keep + new


def _lstm_cell(
    x: torch.Tensor,
    states: Sequence[torch.Tensor],
    of_input: torch.Tensor,
    of_state: torch.Tensor,
    input_bias: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    enter, keep, new, leave = (linear(x, of_input, input_bias) + linear(states[0], of_state, bias)).chunk(4, -1)
    cell = keep.sigmoid() * states[1] + enter.sigmoid() * new.tanh()
    return leave.sigmoid() * cell.tanh(), cell


CELLS: Mapping[str, Callable[..., Any]] = {"gru_cell": _gru_cell, "lstm_cell": _lstm_cell}
"""One step of a layer, by the name of torch's operation, which asks a library on a GPU."""


class WholeFunctions(TorchFunctionMode):  # type: ignore[misc]
    """Takes functions by our rules, and recurrent layers as `recurrence`, whose number of steps costs nothing then."""

    def __init__(self) -> None:
        super().__init__()
        rules = recurrent_rules(recurrence)
        self._rules = FUNCTION_RULES | {getattr(torch, kind): rule for kind, rule in rules.items()}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the rule of an operation, or the operation."""
        rule = self._rules.get(func)
        made = rule(*args, **(kwargs or {})) if rule else NotImplemented
        return func(*args, **(kwargs or {})) if made is NotImplemented else made
