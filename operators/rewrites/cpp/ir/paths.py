"""Addresses of statements: paths of child positions, and replacement of the statement at a path."""

from collections.abc import Iterator
from dataclasses import replace

from operators.rewrites.cpp.ir.syntax import Block, For, If, Path, Stmt


def at(body: tuple[Stmt, ...], path: Path) -> Stmt:
    """Return the statement that a path of child positions leads to (`then` branches only)."""
    stmt = body[path[0]]
    for position in path[1:]:
        stmt = main_body(stmt)[position]
    return stmt


def loop_at(body: tuple[Stmt, ...], path: Path) -> For:
    """Return the loop at a path. Raises `ValueError` where there is none."""
    loop = at(body, path)
    if not isinstance(loop, For):
        raise ValueError("no loop at the site")
    return loop


def main_body(stmt: Stmt) -> tuple[Stmt, ...]:
    """Return the statements that a path may enter; a fallback (`else`) branch is never entered."""
    match stmt:
        case For() | Block():
            return stmt.body
        case If():
            return stmt.then
        case _:
            return ()


def with_body(stmt: Stmt, body: tuple[Stmt, ...]) -> Stmt:
    """Return the same statement around another main body."""
    match stmt:
        case For() | Block():
            return replace(stmt, body=body)
        case If():
            return replace(stmt, then=body)
        case _:
            return stmt


def splice(body: tuple[Stmt, ...], path: Path, new: tuple[Stmt, ...], *, count: int = 1) -> tuple[Stmt, ...]:
    """Replace `count` statements from the path's position on by `new`; comments that end the body still end it."""
    first, rest = path[0], path[1:]
    if not rest:
        end = body[first + count - 1].after
        if end and new:
            *others, last = (_without_end(stmt, end) for stmt in new)
            new = (*others, replace(last, after=end))
        return body[:first] + new + body[first + count :]
    inner = with_body(body[first], splice(main_body(body[first]), rest, new, count=count))
    return (*body[:first], inner, *body[first + 1 :])


def _without_end(stmt: Stmt, end: tuple[str, ...]) -> Stmt:
    """Return the statement without these comments behind it or behind anything in it."""
    stmt = with_body(stmt, tuple(_without_end(inner, end) for inner in main_body(stmt)))
    if isinstance(stmt, If):
        stmt = replace(stmt, orelse=tuple(_without_end(inner, end) for inner in stmt.orelse))
    return replace(stmt, after=()) if stmt.after == end else stmt


def paths(body: tuple[Stmt, ...], prefix: Path = ()) -> Iterator[tuple[Path, Stmt]]:
    """Yield every reachable statement with its path, in source order; fallback branches are left out."""
    for position, stmt in enumerate(body):
        here = (*prefix, position)
        yield here, stmt
        yield from paths(main_body(stmt), here)
