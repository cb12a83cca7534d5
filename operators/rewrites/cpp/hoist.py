"""Loop-invariant code motion: divisions become multiplications by a reciprocal.

`x[j] / s` in a loop over `j` becomes `x[j] * s_inv` with `s_inv = 1 / s` in front of the loop.  Calls of math
functions on invariant arguments move out.  Legal when the loop does not assign any name involved; the reciprocal
rounds once more.  From: Aho et al., "Compilers", code motion and strength reduction.
"""

from dataclasses import replace

import operators.rewrites.cpp.ir.syntax as ir
from operators.rewrites.cpp.base import LoopSite, fresh, innermost, loops
from operators.rewrites.cpp.ir.dependence import has_raw
from operators.rewrites.cpp.ir.paths import loop_at, splice
from operators.rewrites.cpp.ir.reductions import math_function
from operators.rewrites.cpp.vectorize import scalar_types

_FLOATING = {"float", "double"}


def _changed(loop: ir.For) -> set[str]:
    targets = [s.target for s in ir.walk_stmts(loop.body) if isinstance(s, ir.Assign)]
    names = {t.name for t in targets if isinstance(t, ir.Var)} | {t.base for t in targets if isinstance(t, ir.Index)}
    return names | {s.name for s in ir.walk_stmts(loop.body) if isinstance(s, ir.Decl)} | {loop.var}


def _divisors(loop: ir.For) -> list[ir.Expr]:
    found = [e.right for e in ir.all_exprs(loop.body) if isinstance(e, ir.Binary) and e.op == "/"]
    return found + [s.value for s in ir.walk_stmts(loop.body) if isinstance(s, ir.Assign) and s.op == "/="]


class Hoist:
    """Motion of invariant divisions and math calls out of a loop."""

    name = "hoist"

    def sites(self, program: ir.Program) -> list[LoopSite]:
        """Return innermost loops with an invariant division or call."""
        found = []
        types = scalar_types(program)
        for path, loop in loops(program):
            if not innermost(loop) or has_raw(loop.body):
                continue
            for name in self._names(loop, types):
                found.append(LoopSite(path, f"1 / {name} out of loop {loop.var}", (name,)))
            if self._calls(loop, types):
                found.append(LoopSite(path, f"math calls out of loop {loop.var}", ()))
        return found

    def _names(self, loop: ir.For, types: dict[str, str]) -> list[str]:
        changed = _changed(loop)
        names = (e.name for e in _divisors(loop) if isinstance(e, ir.Var))
        return [n for n in dict.fromkeys(names) if n not in changed and types.get(n) in _FLOATING]

    def _calls(self, loop: ir.For, types: dict[str, str]) -> list[ir.Call]:
        changed = _changed(loop)
        calls = (e for e in ir.all_exprs(loop.body) if isinstance(e, ir.Call) and math_function(e.name))
        kinds = {types.get(e.base) for e in ir.all_exprs(loop.body) if isinstance(e, ir.Index)}
        return [
            c for c in dict.fromkeys(calls) if not ir.expr_names(c) & changed and kinds <= _FLOATING and len(kinds) == 1
        ]

    def apply(self, program: ir.Program, site: LoopSite) -> ir.Program:
        """Insert the value in front of the loop and use it inside."""
        loop = loop_at(program.body, site.path)
        types = scalar_types(program)
        if site.detail:
            new = self._reciprocal(program, loop, site.detail[0], types[site.detail[0]])
        else:
            kind = next(types[e.base] for e in ir.all_exprs(loop.body) if isinstance(e, ir.Index))
            new = self._hoisted(program, loop, self._calls(loop, types)[0], kind)
        return replace(program, body=splice(program.body, site.path, new))

    def _reciprocal(self, program: ir.Program, loop: ir.For, name: str, kind: str) -> tuple[ir.Stmt, ...]:
        inverse = fresh(program, f"{name}_inv")
        one = ir.Num("1.0f" if kind == "float" else "1.0")

        def change(expr: ir.Expr) -> ir.Expr:
            match expr:
                case ir.Binary("/", left, ir.Var(divisor)) if divisor == name:
                    return ir.Binary("*", left, ir.Var(inverse))
                case _:
                    return expr

        body = tuple(_multiplied(stmt, name, inverse) for stmt in ir.map_body(loop.body, change))
        decl = ir.Decl(f"const {kind}", inverse, (), ir.Binary("/", one, ir.Var(name)))
        return decl, replace(loop, body=body)

    def _hoisted(self, program: ir.Program, loop: ir.For, call: ir.Call, kind: str) -> tuple[ir.Stmt, ...]:
        name = fresh(program, f"{math_function(call.name)}_value")
        body = ir.map_body(loop.body, lambda e: ir.Var(name) if e == call else e)
        return ir.Decl(f"const {kind}", name, (), call), replace(loop, body=body)


def _multiplied(stmt: ir.Stmt, name: str, inverse: str) -> ir.Stmt:
    if isinstance(stmt, ir.Assign) and stmt.op == "/=" and stmt.value == ir.Var(name):
        return replace(stmt, op="*=", value=ir.Var(inverse))
    return stmt
