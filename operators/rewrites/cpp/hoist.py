"""Loop-invariant code motion: divisions become multiplications by a reciprocal.

`x[j] / s` in a loop over `j` becomes `x[j] * s_inv` with `s_inv = 1 / s` in front of the loop.  Calls of math
functions on invariant arguments move out.  Legal when the loop does not assign any name involved; the reciprocal
rounds once more.  From: Aho et al., "Compilers", code motion and strength reduction.
"""

from __future__ import annotations

from dataclasses import replace

from operators.rewrites.cpp.base import LoopSite, fresh, innermost, loops
from operators.rewrites.cpp.ir.dependence import has_raw
from operators.rewrites.cpp.ir.paths import at, splice
from operators.rewrites.cpp.ir.reductions import math_function
from operators.rewrites.cpp.ir.syntax import (
    Assign,
    Binary,
    Call,
    Decl,
    Expr,
    For,
    Index,
    Num,
    Program,
    Stmt,
    Var,
    all_exprs,
    expr_names,
    map_body,
    walk_stmts,
)
from operators.rewrites.cpp.vectorize import scalar_types

_FLOATING = {"float", "double"}


def _changed(loop: For) -> set[str]:
    targets = [s.target for s in walk_stmts(loop.body) if isinstance(s, Assign)]
    names = {t.name for t in targets if isinstance(t, Var)} | {t.base for t in targets if isinstance(t, Index)}
    return names | {s.name for s in walk_stmts(loop.body) if isinstance(s, Decl)} | {loop.var}


def _divisors(loop: For) -> list[Expr]:
    found = [e.right for e in all_exprs(loop.body) if isinstance(e, Binary) and e.op == "/"]
    return found + [s.value for s in walk_stmts(loop.body) if isinstance(s, Assign) and s.op == "/="]


class Hoist:
    """Motion of invariant divisions and math calls out of a loop."""

    name = "hoist"

    def sites(self, program: Program) -> list[LoopSite]:
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

    def _names(self, loop: For, types: dict[str, str]) -> list[str]:
        changed = _changed(loop)
        names = (e.name for e in _divisors(loop) if isinstance(e, Var))
        return [n for n in dict.fromkeys(names) if n not in changed and types.get(n) in _FLOATING]

    def _calls(self, loop: For, types: dict[str, str]) -> list[Call]:
        changed = _changed(loop)
        calls = (e for e in all_exprs(loop.body) if isinstance(e, Call) and math_function(e.name))
        kinds = {types.get(e.base) for e in all_exprs(loop.body) if isinstance(e, Index)}
        return [
            c for c in dict.fromkeys(calls) if not expr_names(c) & changed and kinds <= _FLOATING and len(kinds) == 1
        ]

    def apply(self, program: Program, site: LoopSite) -> Program:
        """Insert the value in front of the loop and use it inside."""
        loop = at(program.body, site.path)
        if not isinstance(loop, For):
            raise ValueError("no loop at the site")
        types = scalar_types(program)
        if site.detail:
            new = self._reciprocal(program, loop, site.detail[0], types[site.detail[0]])
        else:
            kind = next(types[e.base] for e in all_exprs(loop.body) if isinstance(e, Index))
            new = self._hoisted(program, loop, self._calls(loop, types)[0], kind)
        return replace(program, body=splice(program.body, site.path, new))

    def _reciprocal(self, program: Program, loop: For, name: str, kind: str) -> tuple[Stmt, ...]:
        inverse = fresh(program, f"{name}_inv")
        one = Num("1.0f" if kind == "float" else "1.0")

        def change(expr: Expr) -> Expr:
            match expr:
                case Binary("/", left, Var(divisor)) if divisor == name:
                    return Binary("*", left, Var(inverse))
                case _:
                    return expr

        body = tuple(_multiplied(stmt, name, inverse) for stmt in map_body(loop.body, change))
        decl = Decl(f"const {kind}", inverse, (), Binary("/", one, Var(name)))
        return decl, replace(loop, body=body)

    def _hoisted(self, program: Program, loop: For, call: Call, kind: str) -> tuple[Stmt, ...]:
        name = fresh(program, f"{math_function(call.name)}_value")
        body = map_body(loop.body, lambda e: Var(name) if e == call else e)
        return Decl(f"const {kind}", name, (), call), replace(loop, body=body)


def _multiplied(stmt: Stmt, name: str, inverse: str) -> Stmt:
    if isinstance(stmt, Assign) and stmt.op == "/=" and stmt.value == Var(name):
        return replace(stmt, op="*=", value=Var(inverse))
    return stmt
