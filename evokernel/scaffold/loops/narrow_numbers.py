"""Numbers of eight and sixteen bits in plain C++: rounding to the nearest, ties to even, as torch does, and back."""

import math
import re
from dataclasses import dataclass
from typing import Any

import torch

from evokernel.scaffold.loops.operation_graph import Kind, Node, OperationGraph

_ROUND = """\
static {stored} to_{name}(float value) {{
    uint32_t bits = std::bit_cast<uint32_t>(value);
    const {stored} sign = static_cast<{stored}>(bits >> {rest} & {sign:#x});
    bits &= 0x7fffffff;
    if (bits >= {end:#x}) return sign | (bits > 0x7f800000 ? {magnitude:#x} : {beyond:#x});
    if (bits < {normal:#x}) {{  // the sum ends where the number does
        const float one = std::bit_cast<float>({unit:#x}u);
        return sign | static_cast<{stored}>(std::bit_cast<uint32_t>(std::bit_cast<float>(bits) + one) - {unit:#x}u);
    }}
    return sign | static_cast<{stored}>((bits - {moved:#x}u + {half:#x}u + (bits >> {shift} & 1)) >> {shift});
}}
"""
_WIDEN = """\
static float from_{name}({stored} bits) {{
    const int exponent = (bits & {magnitude:#x}) >> {mantissa}, fraction = bits & {fraction};
    const float sign = bits & {sign:#x} ? -1.0f : 1.0f;
    {special}
    const int whole = exponent ? fraction + {hidden} : fraction;
    return sign * std::ldexp(static_cast<float>(whole), std::max(exponent, 1) - {least});
}}
"""


@dataclass(frozen=True, slots=True)
class _Form:
    """A format of few bits."""

    mantissa: int
    """Bits of the fraction."""
    bias: int
    end: int
    """First number, as bits of float32, that rounds beyond all others."""
    special: str
    """Statement that returns what is no finite number."""
    width: int = 8


_SPECIAL = "if (exponent == {}) return fraction ? NAN : sign * INFINITY;"
_HALF = {
    "to": "static _Float16 to_float16(float value) {\n    return static_cast<_Float16>(value);\n}\n",
    "from": "static float from_float16(_Float16 value) {\n    return static_cast<float>(value);\n}\n",
}
_BFLOAT16 = _Form(7, 127, 0x7F7F8000, _SPECIAL.format(255), width=16)
FORMATS = {
    "float8_e4m3fn": _Form(3, 7, 0x43E80001, "if ((bits & 0x7f) == 0x7f) return NAN;"),
    "float8_e5m2": _Form(2, 15, 0x47700000, _SPECIAL.format(31)),
}
"""Those of eight bits, which torch only moves and converts, by the name of the dtype."""
SHORT = ("bfloat16", "float16")
"""Those of sixteen bits: a kernel computes in float, and rounds where a function casts, and what it stores."""


def converted(graph: OperationGraph, source: Node, given: str, made: str, kind: Kind) -> Node:
    """Return a value of one dtype as another one, of which at least one is of eight or sixteen bits."""
    if given in FORMATS:
        source = graph.node(f"from_{given}", (source,), shape=source.shape, kind="float")
    wide = graph.node("cast", (source,), shape=source.shape, kind="float" if made in FORMATS else kind)
    for name in [f"to_{made}"] * (made in FORMATS) + [f"as_{made}"] * (made in SHORT):
        wide = graph.node(name, (wide,), shape=wide.shape, kind=kind)
    return wide


def conversions_text(body: str) -> str:
    """Return the functions that some C++ calls to convert numbers of eight and sixteen bits."""
    found = set(re.findall(rf"\b(to|from|as)_({'|'.join((*FORMATS, *SHORT))})\b", body))
    needed = sorted({(each, name) for kind, name in found for each in (("from", "to") if kind == "as" else (kind,))})
    rounded = sorted(name for kind, name in found if kind == "as")
    whole = "static float as_{0}(float value) {{\n    return from_{0}(to_{0}(value));\n}}\n"
    return "".join(f"\n{each}" for each in (*(_text(*pair) for pair in needed), *map(whole.format, rounded)))


def _text(kind: str, name: str) -> str:
    if name == "float16":
        return _HALF[kind]
    form = FORMATS.get(name, _BFLOAT16)
    shift = 23 - form.mantissa
    sign, magnitude = 1 << (form.width - 1), (1 << (form.width - 1)) - 1
    stored: dict[str, Any] = {"name": name, "stored": f"uint{form.width}_t", "sign": sign, "magnitude": magnitude}
    if kind == "to":
        infinity = torch.tensor([math.inf]).to(getattr(torch, name))
        return _ROUND.format(
            **stored,
            rest=32 - form.width,
            end=form.end,
            beyond=int(infinity.view(getattr(torch, f"int{form.width}"))) & magnitude,  # older torch has NaN
            normal=(128 - form.bias) << 23,
            unit=(128 - form.bias + shift) << 23,
            moved=(127 - form.bias) << 23,
            half=(1 << (shift - 1)) - 1,
            shift=shift,
        )
    return _WIDEN.format(
        **stored,
        mantissa=form.mantissa,
        fraction=(1 << form.mantissa) - 1,
        hidden=1 << form.mantissa,
        least=form.bias + form.mantissa,
        special=form.special,
    )
