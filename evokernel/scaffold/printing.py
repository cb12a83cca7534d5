"""Pointwise operations as C++ text, with no more parentheses than a person would write."""

from dataclasses import dataclass

from evokernel.scaffold.graph import Node

ATOM = 9
_UNARY = 8
_BINARY = {
    "mul": ("*", 6),
    "div": ("/", 6),
    "add": ("+", 5),
    "sub": ("-", 5),
    "lt": ("<", 4),
    "le": ("<=", 4),
    "gt": (">", 4),
    "ge": (">=", 4),
    "eq": ("==", 3),
    "ne": ("!=", 3),
    "bitwise_and": ("&&", 2),
    "bitwise_or": ("||", 1),
}
_NAMES = {"abs": "fabs", "maximum": "fmax", "minimum": "fmin", "round": "nearbyint"}


@dataclass(frozen=True, slots=True)
class Text:
    """An expression and how tightly its outermost operator binds."""

    text: str
    binds: int


def wrapped(value: Text, least: int) -> str:
    """Return the text, in parentheses where it binds less than needed."""
    return value.text if value.binds >= least else f"({value.text})"


def combine(node: Node, args: list[Text]) -> Text:
    """Return a pointwise operation on the texts of its arguments."""
    op = node.op
    if op in _BINARY:
        sign, binds = _BINARY[op]
        return Text(f"{wrapped(args[0], binds)} {sign} {wrapped(args[1], binds + 1)}", binds)
    match op:
        case "neg":
            return Text(f"-{wrapped(args[0], ATOM)}", _UNARY)
        case "bitwise_not":
            return Text(f"!{wrapped(args[0], ATOM)}", _UNARY)
        case "where":
            return Text(f"{wrapped(args[0], 1)} ? {wrapped(args[1], 1)} : {wrapped(args[2], 1)}", 0)
        case "relu":
            return Text(f"std::fmax({args[0].text}, 0.0f)", ATOM)
        case "rsqrt":
            return Text(f"1.0f / std::sqrt({args[0].text})", 6)
        case "reciprocal":
            return Text(f"1.0f / {wrapped(args[0], 7)}", 6)
        case "cast":
            return Text(f"static_cast<{node.kind}>({args[0].text})", ATOM)
    return Text(f"std::{_NAMES.get(op, op)}({', '.join(arg.text for arg in args)})", ATOM)
