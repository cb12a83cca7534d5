"""Integer expressions over names: tensor dimensions (`L - K + 1`) and tunable constraints (`MR * NR <= 256`)."""

import ast
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache

_BINARY: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARE: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


def names_in(text: str) -> frozenset[str]:
    """Return the names an expression refers to. Raises `ValueError` where it is not an expression."""
    return frozenset(node.id for node in ast.walk(_parse(text)) if isinstance(node, ast.Name))


def evaluate(text: str | int, values: Mapping[str, int]) -> int:
    """Return the value of an integer expression; comparisons and `and` / `or` / `not` give 0 or 1.

    Raises `ValueError` if the text is not such an expression, names an unknown value, or divides by zero.
    """
    if isinstance(text, int):
        return text
    try:
        return int(_walk(_parse(text), values))
    except ZeroDivisionError:
        raise ValueError(f"expression {text!r} divides by zero with {dict(values)}") from None
    except RecursionError:
        raise ValueError("an expression is nested too deeply") from None


@lru_cache(maxsize=1024)  # the same constraint is asked about thousands of points
def _parse(text: str) -> ast.expr:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise ValueError(f"{text!r} is not an integer expression (names, integers, + - * // %, comparisons)") from None


def _walk(node: ast.expr, values: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=bool()):
            pass
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            if name in values:
                return values[name]
            raise ValueError(f"expression names {name!r}; known here: {', '.join(sorted(values)) or 'nothing'}")
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_walk(left, values), _walk(right, values))
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_walk(inner, values)
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return int(not _walk(inner, values))
        case ast.BoolOp(op=op, values=parts):
            results = (bool(_walk(part, values)) for part in parts)  # lazy: `B == 0 or 64 % B == 0` must work
            return int(all(results) if isinstance(op, ast.And) else any(results))
        case ast.Compare(left=left, ops=ops, comparators=rights) if all(type(op) in _COMPARE for op in ops):
            numbers = [_walk(left, values), *(_walk(right, values) for right in rights)]
            pairs = zip(ops, numbers, numbers[1:], strict=False)
            return int(all(_COMPARE[type(op)](a, b) for op, a, b in pairs))
    raise ValueError(f"{ast.unparse(node)!r} is not allowed in an integer expression")
