"""Software prefetch of strided reads some iterations ahead.

Hardware prefetchers lose streams that jump over pages.  Always legal: a prefetch never faults.
From: Mowry, Lam and Gupta, "Design and evaluation of a compiler algorithm for prefetching", 1992.
"""

from __future__ import annotations

from dataclasses import replace

from operators.rewrites.cpp.base import LoopSite, NewTunable, add_tunables, constant_trip, fresh, inside_tile, loops
from operators.rewrites.cpp.ir.affine import Poly, to_poly
from operators.rewrites.cpp.ir.dependence import has_raw
from operators.rewrites.cpp.ir.paths import at, splice
from operators.rewrites.cpp.ir.syntax import (
    ONE,
    ZERO,
    Binary,
    Call,
    Decl,
    ExprStmt,
    For,
    Index,
    Program,
    Var,
    all_exprs,
    expr_names,
    map_expr,
    walk_stmts,
)


class Prefetch:
    """Prefetch of an array that a loop reads with a large stride."""

    name = "prefetch"

    def sites(self, program: Program) -> list[LoopSite]:
        """Return loops around constant-trip loops, and arrays whose stride in them is a size."""
        found = []
        inputs = {p.name for p in program.params if p.pointer and p.type.startswith("const ")}
        for path, loop in loops(program):
            if loop.lower != ZERO or loop.step != ONE or constant_trip(program, loop) or inside_tile(program, path):
                continue
            inner = [s for s in walk_stmts(loop.body) if isinstance(s, For)]
            if not inner or has_raw(loop.body) or not all(constant_trip(program, s) for s in inner):
                continue
            if not any(isinstance(s, ExprStmt) for s in loop.body):
                found += [LoopSite(path, f"{e.base} in loop {loop.var}", (e.base,)) for e in _far(loop, inputs)]
        return found

    def apply(self, program: Program, site: LoopSite) -> Program:
        """Insert the prefetch at the start of the body."""
        loop = at(program.body, site.path)
        if not isinstance(loop, For):
            raise ValueError("no loop at the site")
        element = next(e for e in _far(loop, set(site.detail)))
        ahead = fresh(program, "AHEAD")
        inner = {s.var for s in walk_stmts(loop.body) if isinstance(s, For)}
        later = Binary("+", Var(loop.var), Var(ahead))
        sub = map_expr(element.subs[0], lambda e: later if e == Var(loop.var) else e)
        sub = map_expr(sub, lambda e: ZERO if isinstance(e, Var) and e.name in inner else e)
        hint = ExprStmt(Call("__builtin_prefetch", (Binary("+", Var(element.base), sub),)))
        body = splice(program.body, site.path, (replace(loop, body=(hint, *loop.body)),))
        return add_tunables(replace(program, body=body), [NewTunable(ahead, 8, (4, 8, 16))])


def _far(loop: For, arrays: set[str]) -> list[Index]:
    """Return one read per array with a symbolic stride in the loop."""
    local = {s.name for s in walk_stmts(loop.body) if isinstance(s, Decl)}
    found: dict[str, Index] = {}
    for expr in all_exprs(loop.body):
        if not isinstance(expr, Index) or expr.base not in arrays or expr_names(expr) & local:
            continue
        sub = expr.subs[0]
        poly = to_poly(sub, {name: Poly.symbol(name) for name in expr_names(sub)})
        stride = None if poly is None else poly.stride(loop.var)
        if stride is not None and stride.symbols:
            found.setdefault(expr.base, expr)
    return list(found.values())
