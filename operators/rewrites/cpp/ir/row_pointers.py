"""Expansion of row pointers, so that every access names the array it touches."""

from __future__ import annotations

from operators.rewrites.cpp.ir.paths import main_body, with_body
from operators.rewrites.cpp.ir.syntax import (
    Assign,
    Binary,
    Decl,
    Expr,
    Index,
    Num,
    Stmt,
    Var,
    all_exprs,
    expr_names,
    map_body,
    map_expr,
    walk_stmts,
)


def resolve_views(body: tuple[Stmt, ...], arrays: frozenset[str]) -> tuple[Stmt, ...]:
    """Replace `row[j]` by `x[i * N + j]` where `row` is a local `x + i * N` that is only subscripted."""
    declared = [s.name for s in walk_stmts(body) if isinstance(s, Decl)]
    changed = {s.target.name for s in walk_stmts(body) if isinstance(s, Assign) and isinstance(s.target, Var)}
    bare = {e.name for e in all_exprs(body) if isinstance(e, Var)}
    views: dict[str, tuple[str, Expr]] = {}
    for stmt in walk_stmts(body):
        found = _view(stmt)
        if found is None or declared.count(found[0]) != 1:
            continue
        name, base, offset = found
        if base not in arrays | views.keys() or (expr_names(offset) | {name}) & changed or name in bare - views.keys():
            continue
        views[name] = (base, offset)

    def direct(expr: Expr) -> Expr:
        while isinstance(expr, Index) and len(expr.subs) == 1 and expr.base in views:
            base, offset = views[expr.base]
            sub = expr.subs[0] if offset == Num("0") else Binary("+", map_expr(offset, direct), expr.subs[0])
            expr = Index(base, (sub,))
        return expr

    return map_body(_drop(body, frozenset(views)), direct) if views else body


def _view(stmt: Stmt) -> tuple[str, str, Expr] | None:
    match stmt:
        case Decl(kind, name, (), Binary("+", Var(base), offset)) if "*" in kind:
            return name, base, offset
        case Decl(kind, name, (), Var(base)) if "*" in kind:
            return name, base, Num("0")
        case _:
            return None


def _drop(body: tuple[Stmt, ...], dropped: frozenset[str]) -> tuple[Stmt, ...]:
    kept = (s for s in body if not (isinstance(s, Decl) and s.name in dropped))
    return tuple(with_body(s, _drop(main_body(s), dropped)) if main_body(s) else s for s in kept)
