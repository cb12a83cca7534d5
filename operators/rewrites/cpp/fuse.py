"""Loop fusion: two neighbouring loops over the same range become one, so that values are used while they are in cache.

Buffers declared between the loops move in front of them. Legal when the fused loop is parallel: no iteration then
touches an element that another one writes, so the second body may run before later iterations of the first.
From: Allen and Kennedy, "Optimizing Compilers for Modern Architectures", chapter 8.
"""

import re
from dataclasses import replace

import operators.rewrites.cpp.ir.syntax as ir
from operators.rewrites.cpp.base import LoopSite, fresh, loops
from operators.rewrites.cpp.ir.accesses import buffer_of, buffer_size, constants
from operators.rewrites.cpp.ir.dependence import has_raw, parallel
from operators.rewrites.cpp.ir.paths import at, main_body, splice

_WORD = re.compile(r"[A-Za-z_]\w*")


class Fuse:
    """Fusion of neighbouring loops."""

    name = "fuse"

    def sites(self, program: ir.Program) -> list[LoopSite]:
        """Return all pairs at once, if there are several, and then each pair."""
        found = [LoopSite(path, f"{loop.var}, number {n}") for n, (path, loop) in enumerate(self._pairs(program), 1)]
        every = [LoopSite((), f"all {len(found)} pairs", ("all",))] if len(found) > 1 else []
        return every + found

    def apply(self, program: ir.Program, site: LoopSite) -> ir.Program:
        """Join the two loops of a site, or neighbours until none are left."""
        if site.detail != ("all",):
            return _fused(program, site.path)
        while pairs := self._pairs(program):
            program = _fused(program, pairs[0][0])
        return program

    def _pairs(self, program: ir.Program) -> list[tuple[ir.Path, ir.For]]:
        """Return the first of each two loops that may be one."""
        return [(path, loop) for path, loop in loops(program) if _fits(program, path, loop)]


def _fits(program: ir.Program, path: ir.Path, loop: ir.For) -> bool:
    between, second = _next(program, path)
    if second is None or loop.pragmas or second.pragmas:
        return False
    ours, others = _buffers(loop), _buffers(second)
    if others.keys() & (ir.names_in(loop.body) | ours.keys()) or ours.keys() & ir.names_in(second.body):
        return False
    fixed = _fixed(program) - _declared(loop) - _declared(second)
    if any(names is None or not names <= fixed for names in (*ours.values(), *others.values())):
        return False
    if has_raw(tuple(stmt for stmt in loop.body + second.body if buffer_of(stmt) is None)):
        return False
    if (loop.lower, loop.upper, loop.step) != (second.lower, second.upper, second.step):
        return False
    names, own = ir.names_in(second.body), _declared(second)
    captured = (_declared(loop) - own) | ({loop.var} - {second.var})
    if names & captured or any(not _movable(program, stmt, loop) for stmt in between):
        return False
    return parallel(_fused(program, path), (*path[:-1], path[-1] + len(between)))


def _next(program: ir.Program, path: ir.Path) -> tuple[tuple[ir.Stmt, ...], ir.For | None]:
    """Return the buffers declared behind a statement, and the loop behind them; None where there is none."""
    siblings = main_body(at(program.body, path[:-1])) if len(path) > 1 else program.body
    end = path[-1] + 1
    while end < len(siblings) and buffer_of(siblings[end]) is not None:
        end += 1
    last = siblings[end] if end < len(siblings) else None
    return siblings[path[-1] + 1 : end], last if isinstance(last, ir.For) else None


def _buffers(loop: ir.For) -> dict[str, set[str] | None]:
    """Return the buffers that a body declares, with the names in their sizes."""
    return {buffer[0]: buffer_size(stmt) for stmt in loop.body if (buffer := buffer_of(stmt)) is not None}


def _declared(loop: ir.For) -> set[str]:
    return {stmt.name for stmt in loop.body if isinstance(stmt, ir.Decl)}


def _movable(program: ir.Program, stmt: ir.Stmt, loop: ir.For) -> bool:
    """Say whether a buffer may be declared before the loop: its size depends on nothing that changes."""
    buffer = buffer_of(stmt)
    if buffer is None or not isinstance(stmt, ir.Raw) or buffer[0] in ir.names_in((loop,)):
        return False
    return set(_WORD.findall(stmt.text)) - {"std", "vector", *buffer} <= _fixed(program)


def _fixed(program: ir.Program) -> set[str]:
    """Return the sizes and constants that keep their values."""
    targets = (each.target for each in ir.walk_stmts(program.body) if isinstance(each, ir.Assign))
    changing = {target.name for target in targets if isinstance(target, ir.Var)}
    return ({param.name for param in program.params if not param.pointer} | set(constants(program.head))) - changing


def _fused(program: ir.Program, path: ir.Path) -> ir.Program:
    between, second = _next(program, path)
    first = at(program.body, path)
    if second is None or not isinstance(first, ir.For):
        raise ValueError("no two loops at the site")
    body = ir.substitute(second.body, second.var, ir.Var(first.var))
    for name in sorted(_declared(second) & ir.names_in(first.body)):
        body = _renamed(body, name, fresh(program, name))
    joined = replace(first, body=(*first.body, *body), after=second.after)
    return replace(program, body=splice(program.body, path, (*between, joined), count=len(between) + 2))


def _renamed(body: tuple[ir.Stmt, ...], name: str, new: str) -> tuple[ir.Stmt, ...]:
    def change(expr: ir.Expr) -> ir.Expr:
        match expr:
            case ir.Var(found) if found == name:
                return ir.Var(new)
            case ir.Index(found, subs) if found == name:
                return ir.Index(new, subs)
            case _:
                return expr

    changed = ir.map_body(body, change)
    return tuple(replace(s, name=new) if isinstance(s, ir.Decl) and s.name == name else s for s in changed)
