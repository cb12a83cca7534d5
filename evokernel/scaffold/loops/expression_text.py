"""Pointwise operations as C++ text, without needless parentheses."""

from dataclasses import dataclass

from evokernel.scaffold.loops.narrow_numbers import FORMATS, SHORT
from evokernel.scaffold.loops.operation_graph import INTEGERS, NARROW, Node

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
    "bitwise_xor": ("!=", 3),
}
_AND = 2
_BITWISE = {
    "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^", "shift_left": "<<", "shift_right_arithmetic": ">>",
}  # fmt: skip
_NAMES = {"abs": "fabs", "round": "nearbyint"}
_EXTREMA = ("maximum", "minimum")


@dataclass(frozen=True, slots=True)
class ExpressionText:
    """An expression in C++."""

    text: str
    binds: int
    """Precedence of its outermost operator, 0 to `ATOM`."""


def wrapped(value: ExpressionText, least: int) -> str:
    """Return the text, in parentheses where it binds less than needed."""
    return value.text if value.binds >= least else f"({value.text})"


def combine(node: Node, args: list[ExpressionText]) -> ExpressionText:
    """Return a pointwise operation on the texts of its arguments."""
    if node.op == "copy":
        return args[0]
    if node.op.endswith((*FORMATS, *SHORT)):
        return ExpressionText(f"{node.op}({args[0].text})", ATOM)
    if node.kind in NARROW and node.op not in ("cast", "where"):
        return ExpressionText(f"static_cast<{node.kind}>({_combined(node, args).text})", ATOM)
    return _combined(node, args)


def _left(op: str, value: ExpressionText, binds: int) -> str:
    """Return the left operand; compilers warn of && in || without parentheses."""
    return wrapped(value, ATOM) if op == "bitwise_or" and value.binds == _AND else wrapped(value, binds)


def _right(op: str, binds: int) -> int:
    return binds + 1 if op != "bitwise_or" else _AND + 1


def _combined(node: Node, args: list[ExpressionText]) -> ExpressionText:
    op = node.op
    if op in _BITWISE and node.kind != "bool":
        return ExpressionText(f"({wrapped(args[0], ATOM)} {_BITWISE[op]} {wrapped(args[1], ATOM)})", ATOM)
    if op in _BINARY:
        sign, binds = _BINARY[op]
        return ExpressionText(f"{_left(op, args[0], binds)} {sign} {wrapped(args[1], _right(op, binds))}", binds)
    match op:
        case "neg":
            return ExpressionText(f"-{wrapped(args[0], ATOM)}", _UNARY)
        case "bitwise_not":
            return ExpressionText(f"{'!' if node.kind == 'bool' else '~'}{wrapped(args[0], ATOM)}", _UNARY)
        case "where":
            return ExpressionText(f"{wrapped(args[0], 1)} ? {wrapped(args[1], 1)} : {wrapped(args[2], 1)}", 0)
        case "relu" | "sign":
            return ExpressionText(_beside_zero(node, args[0]), ATOM)
        case "rsqrt" | "reciprocal":
            below = f"std::sqrt({args[0].text})" if op == "rsqrt" else wrapped(args[0], 7)
            return ExpressionText(f"1.0f / {below}", 6)
        case "remainder":
            return _remainder(*args, whole=node.kind in INTEGERS)
        case "cast":
            return ExpressionText(f"static_cast<{node.kind}>({args[0].text})", ATOM)
    return ExpressionText(f"{_function(op, node)}({', '.join(arg.text for arg in args)})", ATOM)


def _beside_zero(node: Node, value: ExpressionText) -> str:
    zero, text = "0" if node.kind in INTEGERS else "0.0f", wrapped(value, 5)
    if node.op == "relu":
        return f"{_function('maximum', node)}({value.text}, {zero})"
    return f"static_cast<{node.kind}>(({text} > {zero}) - ({text} < {zero}))"


def _remainder(one: ExpressionText, other: ExpressionText, *, whole: bool) -> ExpressionText:
    """Return the remainder with the sign of the divisor."""
    by, text = wrapped(other, 7), wrapped(one, 6)
    if whole:
        return ExpressionText(f"({text} % {by} + {by}) % {by}", 6)
    return ExpressionText(f"{wrapped(one, 5)} - std::floor({text} / {by}) * {by}", 5)


def _function(op: str, node: Node) -> str:
    """Return the name of a function; integers stay integers, and a NaN as the first argument stays one."""
    if op in _EXTREMA:
        return f"std::{op[:3]}<{'int64_t' if node.kind in INTEGERS else node.kind}>"
    if op == "abs" and node.kind in INTEGERS:
        return "std::abs"
    return f"std::{_NAMES.get(op, op)}"


def number_text(text: str) -> ExpressionText:
    """Return a number, which may be a size that is a sum or a product of others."""
    outside = text.partition("(")[0] + text.rpartition(")")[2]
    if " + " in outside or " - " in outside:
        return ExpressionText(text, 5)
    return ExpressionText(text, 6 if " / " in outside or " * " in outside else 8 if text.startswith("-") else ATOM)


def counted_text(node: Node, value: str) -> ExpressionText:
    """Return an element of equally spaced integers, given its place."""
    start, step = node.attrs
    text = value if step == 1 else f"{value} * {step}" if value.isalnum() else f"({value}) * {step}"
    assert isinstance(start, int)
    moved = f" {'-' if start < 0 else '+'} {abs(start)}" if start else ""
    return ExpressionText(text + moved, ATOM if text.isalnum() and not start else 5)
