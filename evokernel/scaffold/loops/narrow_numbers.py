"""Numbers of eight bits in plain C++: rounding to the nearest, ties to even, as torch does, and back."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch

from evokernel.scaffold.loops.operation_graph import Kind, Node, OperationGraph

_ROUND = """\
static uint8_t to_{name}(float value) {{
    uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint8_t sign = static_cast<uint8_t>(bits >> 24 & 0x80);
    bits &= 0x7fffffff;
    if (bits >= {end:#x}) return sign | (bits > 0x7f800000 ? 0x7f : {beyond:#x});
    if (bits < {normal:#x}) {{  // the sum ends where the number does
        const float one = std::bit_cast<float>({unit:#x}u);
        return sign | static_cast<uint8_t>(std::bit_cast<uint32_t>(std::bit_cast<float>(bits) + one) - {unit:#x}u);
    }}
    return sign | static_cast<uint8_t>((bits - {moved:#x}u + {half:#x}u + (bits >> {shift} & 1)) >> {shift});
}}
"""
_WIDEN = """\
static float from_{name}(uint8_t bits) {{
    const int exponent = (bits & 0x7f) >> {mantissa}, fraction = bits & {fraction};
    const float sign = bits & 0x80 ? -1.0f : 1.0f;
    {special}
    const int whole = exponent ? fraction + {hidden} : fraction;
    return sign * std::ldexp(static_cast<float>(whole), std::max(exponent, 1) - {least});
}}
"""


@dataclass(frozen=True, slots=True)
class _Form:
    """A format of eight bits."""

    mantissa: int
    """Bits of the fraction."""
    bias: int
    end: int
    """First number, as bits of float32, that rounds beyond all others."""
    special: str
    """Statement that returns what is no finite number."""


FORMATS = {
    "float8_e4m3fn": _Form(3, 7, 0x43E80001, "if ((bits & 0x7f) == 0x7f) return NAN;"),
    "float8_e5m2": _Form(2, 15, 0x47700000, "if (exponent == 31) return fraction ? NAN : sign * INFINITY;"),
}
"""By the name of the dtype."""


def converted(graph: OperationGraph, source: Node, given: str, made: str, kind: Kind) -> Node:
    """Return a value of one dtype as another one, of which at least one is of eight bits."""
    if given in FORMATS:
        source = graph.node(f"from_{given}", (source,), shape=source.shape, kind="float")
    if made not in FORMATS:
        return graph.node("cast", (source,), shape=source.shape, kind=kind)
    wide = graph.node("cast", (source,), shape=source.shape, kind="float")
    return graph.node(f"to_{made}", (wide,), shape=wide.shape, kind=kind)


def conversions_text(operations: Iterable[str]) -> str:
    """Return the functions for operations named `to_...` and `from_...` with a dtype of eight bits."""
    return "".join(f"\n{_text(each)}" for each in sorted(set(operations)))


def _text(operation: str) -> str:
    kind, _, name = operation.partition("_")
    form = FORMATS[name]
    shift = 23 - form.mantissa
    if kind == "to":
        return _ROUND.format(
            name=name,
            end=form.end,
            beyond=int(torch.tensor([math.inf]).to(getattr(torch, name)).view(torch.uint8)),  # older torch has NaN
            normal=(128 - form.bias) << 23,
            unit=(128 - form.bias + shift) << 23,
            moved=(127 - form.bias) << 23,
            half=(1 << (shift - 1)) - 1,
            shift=shift,
        )
    return _WIDEN.format(
        name=name,
        mantissa=form.mantissa,
        fraction=(1 << form.mantissa) - 1,
        hidden=1 << form.mantissa,
        least=form.bias + form.mantissa,
        special=form.special,
    )
