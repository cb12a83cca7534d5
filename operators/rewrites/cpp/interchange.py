"""Loop interchange, for perfect nests and through expansion of a scalar accumulator.

`i, j, { acc = 0; k: acc += ...; out = acc }` becomes `i, { j: out = 0; k, j: out += ... }`, which turns the
reduction into updates of a row with unit stride.  Legal when both loops may run in any order (parallel or
reassociated reductions) and neither's bounds depend on the other.
From: Allen and Kennedy, "Optimizing Compilers for Modern Architectures", chapters 5 and 8.
"""

from dataclasses import replace

import operators.rewrites.cpp.ir.syntax as ir
from operators.rewrites.cpp.base import LoopSite, constant_trip, element_types, innermost, loops
from operators.rewrites.cpp.ir.affine import ONE as UNIT
from operators.rewrites.cpp.ir.affine import Poly, to_poly
from operators.rewrites.cpp.ir.dependence import facts, has_raw
from operators.rewrites.cpp.ir.paths import loop_at, splice
from operators.rewrites.cpp.ir.reductions import reduction_of


def _prefix(loop: ir.For) -> tuple[tuple[ir.Decl, ...], ir.For] | None:
    """Return the leading constant integers and the single loop behind them; None for any other body."""
    *first, last = loop.body or (None,)
    decls = tuple(s for s in first if isinstance(s, ir.Decl) and s.type.startswith("const int"))
    return (decls, last) if isinstance(last, ir.For) and len(decls) == len(first) else None


def _bounds(loop: ir.For) -> set[str]:
    return set().union(*map(ir.expr_names, ir.own_exprs(loop)))


def _unit_strides(loop: ir.For, var: str) -> int:
    """Return the number of array elements in the body with unit stride in a variable."""
    count = 0
    for expr in ir.all_exprs(loop.body):
        if isinstance(expr, ir.Index):
            poly = to_poly(expr.subs[-1], {name: Poly.symbol(name) for name in ir.expr_names(expr.subs[-1])})
            count += poly is not None and poly.stride(var) == UNIT
    return count


def _worse(inner: ir.For, outer: ir.For) -> bool:
    return _unit_strides(inner, outer.var) < _unit_strides(inner, inner.var)


class Interchange:
    """Exchange of two loops."""

    name = "interchange"

    def sites(self, program: ir.Program) -> list[LoopSite]:
        """Return accumulator expansions first, then perfect pairs."""
        expanded, swapped = [], []
        for path, loop in loops(program):
            if constant_trip(program, loop) or loop.pragmas or has_raw(loop.body):
                continue
            if self._expandable(program, loop) and facts(program, path).parallel:
                inner = loop.body[1]
                expanded.append(LoopSite(path, f"{loop.var} inside {getattr(inner, 'var', '')}", ("expand",)))
            pair = _prefix(loop)
            if pair is None or pair[1].pragmas or constant_trip(program, pair[1]):
                continue
            decls, inner = pair
            if not isinstance(loop.lower, ir.Num) or not isinstance(inner.lower, ir.Num):
                continue
            outer_names = {loop.var} | {d.name for d in decls}
            if _bounds(inner) & outer_names:
                continue
            outer_facts, inner_facts = facts(program, path), facts(program, (*path, len(decls)))
            if loop.step == ir.ONE and outer_facts.parallel and (not innermost(inner) or _worse(inner, loop)):
                continue  # no access gains unit stride
            if outer_facts.reorderable and inner_facts.reorderable:
                swapped.append(LoopSite(path, f"{loop.var}, {inner.var}", ("swap",)))
        return expanded + swapped

    def _expandable(self, program: ir.Program, loop: ir.For) -> bool:
        match loop.body:
            case (ir.Decl(kind, acc, ()), ir.For() as inner, ir.Assign(ir.Index(base, _) as target, "=", value)):
                pass
            case _:
                return False
        if loop.var in _bounds(inner) or acc not in ir.expr_names(value) or inner.pragmas:
            return False
        reduced = [reduction_of(s) for s in inner.body if not isinstance(s, ir.Decl)]
        updates = [r for r in reduced if r is not None and r[0] == ir.Var(acc)]
        inside = ir.names_in(inner.body)
        plain = len(updates) == 1 == len(reduced) and base not in inside and inner.var not in ir.expr_names(target)
        uses_once = sum(e == ir.Var(acc) for e in ir.all_exprs(inner.body)) <= 2
        return plain and uses_once and element_types(program).get(base) == kind

    def apply(self, program: ir.Program, site: LoopSite) -> ir.Program:
        """Swap the loops, or expand the accumulator into the output."""
        loop = loop_at(program.body, site.path)
        new = self._expand(loop) if site.detail == ("expand",) else (self._swap(loop),)
        return replace(program, body=splice(program.body, site.path, new))

    def _swap(self, loop: ir.For) -> ir.For:
        pair = _prefix(loop)
        if pair is None:
            raise ValueError("no perfect nest")
        decls, inner = pair
        own: list[ir.Stmt] = []
        names = {loop.var} | {d.name for d in decls}
        rest = list(inner.body)
        while (
            rest
            and isinstance(rest[0], ir.Decl)
            and rest[0].type.startswith("const int")
            and not ir.names_in((rest[0],)) & names
        ):
            own.append(rest.pop(0))
        moved = replace(loop, body=(*decls, *rest), notes=inner.notes)
        return replace(inner, body=(*own, moved), notes=loop.notes)

    def _expand(self, loop: ir.For) -> tuple[ir.Stmt, ...]:
        first, inner, last = loop.body
        if not (
            isinstance(first, ir.Decl) and isinstance(inner, ir.For) and isinstance(last, ir.Assign) and first.init
        ):
            raise ValueError("no accumulator")
        target = last.target
        start = replace(loop, body=(ir.Assign(target, "=", first.init),))
        acc = ir.Var(first.name)
        update = ir.map_body(inner.body, lambda e: target if e == acc else e)
        middle = replace(inner, body=(replace(loop, body=update, notes=()),))
        if last.value == acc:
            return start, middle
        finish = ir.map_body((replace(last, notes=()),), lambda e: target if e == acc else e)
        return start, middle, replace(loop, body=finish, notes=())
