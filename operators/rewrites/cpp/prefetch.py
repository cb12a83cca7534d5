"""Software prefetch of strided reads some iterations ahead.

Hardware prefetchers lose streams that jump over pages.  Always legal: a prefetch never faults.
From: Mowry, Lam and Gupta, "Design and evaluation of a compiler algorithm for prefetching", 1992.
"""

from dataclasses import replace

import operators.rewrites.cpp.ir.syntax as ir
from operators.rewrites.cpp.base import LoopSite, NewTunable, add_tunables, constant_trip, fresh, inside_tile, loops
from operators.rewrites.cpp.ir.affine import Poly, to_poly
from operators.rewrites.cpp.ir.dependence import has_raw
from operators.rewrites.cpp.ir.paths import loop_at, splice


class Prefetch:
    """Prefetch of an array that a loop reads with a large stride."""

    name = "prefetch"

    def sites(self, program: ir.Program) -> list[LoopSite]:
        """Return loops around constant-trip loops, and arrays whose stride in them is a size."""
        found = []
        inputs = {p.name for p in program.params if p.pointer and p.type.startswith("const ")}
        for path, loop in loops(program):
            if (
                loop.lower != ir.ZERO
                or loop.step != ir.ONE
                or constant_trip(program, loop)
                or inside_tile(program, path)
            ):
                continue
            inner = [s for s in ir.walk_stmts(loop.body) if isinstance(s, ir.For)]
            if not inner or has_raw(loop.body) or not all(constant_trip(program, s) for s in inner):
                continue
            if not any(isinstance(s, ir.ExprStmt) for s in loop.body):
                found += [LoopSite(path, f"{e.base} in loop {loop.var}", (e.base,)) for e in _far(loop, inputs)]
        return found

    def apply(self, program: ir.Program, site: LoopSite) -> ir.Program:
        """Insert the prefetch at the start of the body."""
        loop = loop_at(program.body, site.path)
        element = next(e for e in _far(loop, set(site.detail)))
        ahead = fresh(program, "AHEAD")
        inner = {s.var for s in ir.walk_stmts(loop.body) if isinstance(s, ir.For)}
        later = ir.Binary("+", ir.Var(loop.var), ir.Var(ahead))
        sub = ir.map_expr(element.subs[0], lambda e: later if e == ir.Var(loop.var) else e)
        sub = ir.map_expr(sub, lambda e: ir.ZERO if isinstance(e, ir.Var) and e.name in inner else e)
        hint = ir.ExprStmt(ir.Call("__builtin_prefetch", (ir.Binary("+", ir.Var(element.base), sub),)))
        body = splice(program.body, site.path, (replace(loop, body=(hint, *loop.body)),))
        return add_tunables(replace(program, body=body), [NewTunable(ahead, 8, (4, 8, 16))])


def _far(loop: ir.For, arrays: set[str]) -> list[ir.Index]:
    """Return one read per array with a symbolic stride in the loop."""
    local = {s.name for s in ir.walk_stmts(loop.body) if isinstance(s, ir.Decl)}
    found: dict[str, ir.Index] = {}
    for expr in ir.all_exprs(loop.body):
        if not isinstance(expr, ir.Index) or expr.base not in arrays or ir.expr_names(expr) & local:
            continue
        sub = expr.subs[0]
        poly = to_poly(sub, {name: Poly.symbol(name) for name in ir.expr_names(sub)})
        stride = None if poly is None else poly.stride(loop.var)
        if stride is not None and stride.symbols:
            found.setdefault(expr.base, expr)
    return list(found.values())
