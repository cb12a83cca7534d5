"""Recognition of math functions, extrema and reductions over one target."""

import re

from operators.rewrites.cpp.ir.syntax import Assign, Binary, Call, Expr, If, Stmt, Ternary, walk

_ROOTS = {"sqrt", "cbrt", "pow", "fma", "fabs", "abs", "floor", "ceil", "fmax", "fmin"}
_TRANSCENDENTAL = {"exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "tanh", "sin", "cos", "tan", "erf"}
MATH = frozenset(_ROOTS | _TRANSCENDENTAL)
_TWO_SIDED = {"std::max": "max", "fmaxf": "max", "fmax": "max", "std::fmax": "max"}
_TWO_SIDED |= {name.replace("max", "min"): "min" for name in _TWO_SIDED}


def math_function(name: str) -> str | None:
    """Return the base name (`exp`) of a standard math function (`expf`, `std::exp`); None for other names."""
    base = name.removeprefix("std::").removeprefix("__builtin_")
    for candidate in (base, base.removesuffix("f")):
        if candidate in MATH:
            return candidate
    return None


def extremum(name: str) -> str | None:
    """Return `max` or `min` for the two-argument functions of that kind."""
    return _TWO_SIDED.get(re.sub(r"<\w+>$", "", name))


def reduction_of(stmt: Stmt) -> tuple[Expr, str, Expr] | None:
    """Return `(target, op, value)` of a statement `target = target op value`, op one of `+ * max min`."""
    found = _reduction(stmt)
    return None if found is None or found[0] in walk(found[2]) else found


def _reduction(stmt: Stmt) -> tuple[Expr, str, Expr] | None:
    match stmt:
        case Assign(target, "+=" | "-=", value):
            return target, "+", value
        case Assign(target, "*=", value):
            return target, "*", value
        case Assign(target, "=", Binary("+" | "*" as joined, left, right)) if target in (left, right):
            return target, joined, right if left == target else left
        case Assign(target, "=", Call(name, (left, right))) if extremum(name) and target in (left, right):
            return target, extremum(name) or "", right if left == target else left
        case Assign(target, "=", Ternary(cond, then, orelse)) if target in (then, orelse):
            value = then if orelse == target else orelse
            op = _selected(cond, then, orelse)
            return None if op is None else (target, op, value)
        case If(cond, (Assign(target, "=", value),), ()):
            op = _selected(cond, value, target)
            return None if op is None else (target, op, value)
        case _:
            return None


def _selected(cond: Expr, then: Expr, orelse: Expr) -> str | None:
    match cond:
        case Binary(">" | ">=", left, right):
            pass
        case Binary("<" | "<=", right, left):
            pass
        case _:
            return None
    if (left, right) == (then, orelse):
        return "max"
    return "min" if (left, right) == (orelse, then) else None
