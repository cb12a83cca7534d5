"""Scalar replacement: an array element that an inner loop keeps updating becomes a local scalar.

Legal when every access of the array in the statements has that one subscript and the inner loops do not
change it.  From: Callahan, Carr, Kennedy, "Improving register allocation for subscripted variables", 1990.
"""

import operators.rewrites.cpp.ir.syntax as ir
from operators.rewrites.cpp.base import LoopSite, element_types, fresh, innermost, loops
from operators.rewrites.cpp.ir.accesses import buffer_of
from operators.rewrites.cpp.ir.dependence import facts
from operators.rewrites.cpp.ir.paths import splice, with_body


def updated_element(body: tuple[ir.Stmt, ...]) -> ir.Index | None:
    """Return the array element that a loop among the statements updates in place, if it can live in a scalar."""
    inner = {s.var for s in ir.walk_stmts(body) if isinstance(s, ir.For)}
    inner |= {s.name for s in ir.walk_stmts(body) if isinstance(s, ir.Decl)}
    inner |= {buffer[0] for s in ir.walk_stmts(body) if (buffer := buffer_of(s)) is not None}
    for loop in body:
        if not isinstance(loop, ir.For):
            continue
        for stmt in ir.walk_stmts(loop.body):
            if (
                isinstance(stmt, ir.Assign)
                and isinstance(stmt.target, ir.Index)
                and not ir.expr_names(stmt.target) & inner
            ):
                uses = {e for e in ir.all_exprs(body) if isinstance(e, ir.Index) and e.base == stmt.target.base}
                if uses == {stmt.target} and not any(
                    isinstance(e, ir.RefCast) and e.value in uses for e in ir.all_exprs(body)
                ):
                    return stmt.target
    return None


def promote(program: ir.Program, body: tuple[ir.Stmt, ...]) -> tuple[ir.Stmt, ...]:
    """Return the statements with their updated element, where its type is known, held in a scalar."""
    element = updated_element(body)
    kind = element_types(program).get(element.base) if element is not None else None
    if element is None or kind is None:  # a scalar needs the type, which only a declaration here gives
        return body
    name = fresh(program, "acc")
    first = body[0]
    stored = isinstance(first, ir.Assign) and first.target == element and first.op == "="
    start: ir.Stmt = ir.Decl(kind, name, (), first.value if stored and isinstance(first, ir.Assign) else element)
    rest = ir.map_body(body[1:] if stored else body, lambda e: ir.Var(name) if e == element else e)
    return (start, *rest, ir.Assign(element, "=", ir.Var(name)))


class Promote:
    """Scalar replacement of an array element that an inner loop updates."""

    name = "promote"

    def sites(self, program: ir.Program) -> list[LoopSite]:
        """Return loops whose body updates one element in an inner loop."""
        found = []
        for path, loop in loops(program):
            if innermost(loop):
                continue
            element = updated_element(loop.body)
            if element is not None and element.base in element_types(program) and facts(program, path).parallel:
                found.append(LoopSite(path, f"{element.base} in loop {loop.var}"))
        return found

    def apply(self, program: ir.Program, site: LoopSite) -> ir.Program:
        """Load before, store after, a scalar in between."""
        loop = dict(loops(program))[site.path]
        new = with_body(loop, promote(program, loop.body))
        return ir.Program(
            program.head, program.prefix, program.params, splice(program.body, site.path, (new,)), program.tail
        )
