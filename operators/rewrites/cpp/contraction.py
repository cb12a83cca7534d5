"""Contraction of rows of totals: `j: t = 0; k, j: t += ...` becomes `j: { acc = 0; k: acc += ...; t = acc }`.

It is the inverse of the expansion that `interchange` makes, and what tiles of registers are built from; alone it would
lose the unit stride. Legal when the loop over `j` is parallel, and the array is used nowhere else in the nest.
From: Allen and Kennedy, "Optimizing Compilers for Modern Architectures", chapter 5.
"""

from dataclasses import replace

import operators.rewrites.cpp.ir.syntax as ir
from operators.rewrites.cpp.base import element_types, fresh, loops
from operators.rewrites.cpp.ir.dependence import facts, has_raw
from operators.rewrites.cpp.ir.paths import main_body, splice


def contracted(program: ir.Program) -> ir.Program | None:
    """Return a program with a scalar in place of each row of totals; None where there is no such row."""
    for path, _ in loops(program):
        *above, place = path
        around = _inside(program.body, tuple(above))
        if place + 1 < len(around) and (made := _contracted(program, path, around[place], around[place + 1])):
            whole = replace(program, body=splice(program.body, path, (made,), count=2))
            return contracted(whole) or whole
    return None


def _inside(body: tuple[ir.Stmt, ...], path: ir.Path) -> tuple[ir.Stmt, ...]:
    for position in path:
        body = main_body(body[position])
    return body


def _contracted(program: ir.Program, path: ir.Path, start: ir.Stmt, nest: ir.Stmt) -> ir.For | None:
    around: list[ir.For] = []
    inner, where = nest, (*path[:-1], path[-1] + 1)
    while isinstance(inner, ir.For) and len(inner.body) == 1 and isinstance(inner.body[0], ir.For):
        around.append(inner)
        inner, where = inner.body[0], (*where, 0)
    if not around or not isinstance(start, ir.For) or not isinstance(inner, ir.For) or has_raw((start, nest)):
        return None
    match start.body, inner.body:
        case (ir.Assign(ir.Index(name) as element, "=", first),), (ir.Assign(target, op, value),):
            pass
        case _:
            return None
    same = (start.var, start.lower, start.upper, start.step) == (inner.var, inner.lower, inner.upper, inner.step)
    bounds = {name for each in around for expr in ir.own_exprs(each) for name in ir.expr_names(expr)}
    changing = {each.var for each in around} & (ir.expr_names(element) | ir.expr_names(first))
    flags = any(each.pragmas for each in (start, inner, *around))
    kind = element_types(program).get(name)
    if not same or target != element or op == "=" or kind is None or flags or changing or inner.var in bounds:
        return None
    if name in bounds | ir.expr_names(value) or not facts(program, where).parallel:
        return None
    total = ir.Var(fresh(program, "acc"))
    body: ir.Stmt = ir.Assign(total, op, value)
    for each in reversed(around):
        body = replace(each, body=(body,))
    return replace(start, body=(ir.Decl(kind, total.name, (), first), body, ir.Assign(element, "=", total)))
