"""One recurrent layer as a kernel for Inductor's programs: a program for a block of rows takes all steps in turn."""

from typing import Any

import torch
import triton
import triton.language as tl

from evokernel.scaffold.decompositions.recurrent_layers import GATES

_TILE = 32
_FLOATS = (torch.float32, torch.bfloat16, torch.float16)


@triton.jit
def _sigmoid(x):  # type: ignore[no-untyped-def]
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def _tanh(x):  # type: ignore[no-untyped-def]
    size = tl.abs(x)
    decay = tl.exp(-2.0 * size)
    square = x * x
    # a series near 0, where the difference loses digits
    series = size * (1.0 + square * (-1.0 / 3 + square * (2.0 / 15 + square * (-17.0 / 315 + square * (62.0 / 2835)))))
    large = (1.0 - decay) / (1.0 + decay)
    made = tl.where(size < 0.25, series, large)
    return tl.where(x < 0, -made, made)


@triton.jit  # type: ignore[untyped-decorator]
def _gate(hidden, weight, bias, rows, columns, gate, B, H, TILE: tl.constexpr):  # type: ignore[no-untyped-def]
    of_bias = tl.load(bias + gate * H + columns, mask=columns < H, other=0.0).to(tl.float32)
    total = tl.zeros((TILE, TILE), dtype=tl.float32) + of_bias[None, :]
    for first in range(0, H, TILE):
        inner = first + tl.arange(0, TILE)
        some = (rows < B)[:, None] & (inner < H)[None, :]
        state = tl.load(hidden + rows[:, None] * H + inner[None, :], mask=some, other=0.0)
        some = (inner < H)[:, None] & (columns < H)[None, :]
        part = tl.load(weight + (gate * H + columns)[None, :] * H + inner[:, None], mask=some, other=0.0)
        total = tl.dot(state, part, total, input_precision="ieee")
    return total


@triton.jit  # type: ignore[untyped-decorator]
def recurrent_layer(  # type: ignore[no-untyped-def]
    gates, weight, bias, start, states, T, B, H, GATES: tl.constexpr, RELU: tl.constexpr, TILE: tl.constexpr
):
    rows = tl.program_id(0) * TILE + tl.arange(0, TILE)
    size = B * H
    step_size = size
    if GATES == 4:
        step_size = 2 * size
    for first in range(0, H, TILE):
        columns = first + tl.arange(0, TILE)
        some = (rows < B)[:, None] & (columns < H)[None, :]
        at = rows[:, None] * H + columns[None, :]
        tl.store(states + at, tl.load(start + at, mask=some), mask=some)
        if GATES == 4:
            tl.store(states + size + at, tl.load(start + size + at, mask=some), mask=some)
    for step in range(T):
        tl.debug_barrier()  # other threads wrote parts of the hidden state
        before = states + tl.cast(step, tl.int64) * step_size
        given = gates + tl.cast(step, tl.int64) * (size * GATES)
        for first in range(0, H, TILE):
            columns = first + tl.arange(0, TILE)
            some = (rows < B)[:, None] & (columns < H)[None, :]
            at = rows[:, None] * H + columns[None, :]
            x_at = given + rows[:, None] * (GATES * H) + columns[None, :]
            x0 = tl.load(x_at, mask=some, other=0.0).to(tl.float32)
            own0 = _gate(before, weight, bias, rows, columns, 0, B, H, TILE)
            if GATES == 1:
                hidden = tl.maximum(x0 + own0, 0.0) if RELU else _tanh(x0 + own0)
            else:
                x1 = tl.load(x_at + H, mask=some, other=0.0).to(tl.float32)
                own1 = _gate(before, weight, bias, rows, columns, 1, B, H, TILE)
                x2 = tl.load(x_at + 2 * H, mask=some, other=0.0).to(tl.float32)
                own2 = _gate(before, weight, bias, rows, columns, 2, B, H, TILE)
                if GATES == 3:
                    new = _tanh(x2 + _sigmoid(x0 + own0) * own2)
                    old = tl.load(before + at, mask=some, other=0.0).to(tl.float32)
                    hidden = (old - new) * _sigmoid(x1 + own1) + new
                else:
                    x3 = tl.load(x_at + 3 * H, mask=some, other=0.0).to(tl.float32)
                    own3 = _gate(before, weight, bias, rows, columns, 3, B, H, TILE)
                    old = tl.load(before + size + at, mask=some, other=0.0).to(tl.float32)
                    cell = _sigmoid(x1 + own1) * old + _sigmoid(x0 + own0) * _tanh(x2 + own2)
                    tl.store(before + step_size + size + at, cell, mask=some)
                    hidden = _sigmoid(x3 + own3) * _tanh(cell)
            tl.store(before + step_size + at, hidden, mask=some)


def recurrence(
    gates: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, start: torch.Tensor, kind: str
) -> torch.Tensor:
    """Launch the kernel as a node of a trace; arguments and result as in `recurrent_layers.recurrence`."""
    if gates.dtype not in _FLOATS:
        made: torch.Tensor = torch.ops.evokernel.recurrence(gates, weight, bias, start, kind)
        return made
    steps, rows, _ = gates.shape
    states = gates.new_empty((steps + 1, *start.shape))
    launch: Any = torch.library.wrap_triton(recurrent_layer)[(triton.cdiv(rows, _TILE),)]
    given = {"gates": gates, "weight": weight, "bias": bias, "start": start, "states": states}
    numbers = {"T": steps, "B": rows, "H": weight.shape[1], "GATES": GATES[kind], "RELU": int(kind == "rnn_relu")}
    launch(**given, **numbers, TILE=_TILE)
    return states
