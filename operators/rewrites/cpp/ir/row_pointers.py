"""Expansion of row pointers, so that every access names the array it touches."""

import operators.rewrites.cpp.ir.syntax as ir
from operators.rewrites.cpp.ir.paths import main_body, with_body


def resolve_views(body: tuple[ir.Stmt, ...], arrays: frozenset[str]) -> tuple[ir.Stmt, ...]:
    """Replace `row[j]` by `x[i * N + j]` where `row` is a local `x + i * N` that is only subscripted."""
    declared = [s.name for s in ir.walk_stmts(body) if isinstance(s, ir.Decl)]
    changed = {s.target.name for s in ir.walk_stmts(body) if isinstance(s, ir.Assign) and isinstance(s.target, ir.Var)}
    bare = {e.name for e in ir.all_exprs(body) if isinstance(e, ir.Var)}
    views: dict[str, tuple[str, ir.Expr]] = {}
    for stmt in ir.walk_stmts(body):
        found = _view(stmt)
        if found is None or declared.count(found[0]) != 1:
            continue
        name, base, offset = found
        if (
            base not in arrays | views.keys()
            or (ir.expr_names(offset) | {name}) & changed
            or name in bare - views.keys()
        ):
            continue
        views[name] = (base, offset)

    def direct(expr: ir.Expr) -> ir.Expr:
        while isinstance(expr, ir.Index) and len(expr.subs) == 1 and expr.base in views:
            base, offset = views[expr.base]
            sub = expr.subs[0] if offset == ir.Num("0") else ir.Binary("+", ir.map_expr(offset, direct), expr.subs[0])
            expr = ir.Index(base, (sub,))
        return expr

    return ir.map_body(_drop(body, frozenset(views)), direct) if views else body


def _view(stmt: ir.Stmt) -> tuple[str, str, ir.Expr] | None:
    match stmt:
        case ir.Decl(kind, name, (), ir.Binary("+", ir.Var(base), offset)) if "*" in kind:
            return name, base, offset
        case ir.Decl(kind, name, (), ir.Var(base)) if "*" in kind:
            return name, base, ir.Num("0")
        case _:
            return None


def _drop(body: tuple[ir.Stmt, ...], dropped: frozenset[str]) -> tuple[ir.Stmt, ...]:
    kept = (s for s in body if not (isinstance(s, ir.Decl) and s.name in dropped))
    return tuple(with_body(s, _drop(main_body(s), dropped)) if main_body(s) else s for s in kept)
