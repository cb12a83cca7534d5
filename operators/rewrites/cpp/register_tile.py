"""Register tiling: unroll-and-jam one or two parallel loops over the loops inside them.

Every scalar of the body becomes a small local array with one element per point of the tile.  The body is
distributed into phases (initialise, reduce, store).  Each phase is a constant-trip loop nest that the compiler can
unroll and keep in registers.  Legal when the tiled loops are parallel and the loops inside have bounds that
do not change within a tile.  The last tile of a row overlaps the one before it where recomputing is harmless
(the output is only written); otherwise plain remainder loops follow.
From: Carr and Kennedy, "Improving the ratio of memory operations to floating-point operations", 1994, and
the micro-kernels of BLIS (Van Zee and van de Geijn, 2015).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import operators.rewrites.cpp.ir.syntax as ir
from operators.rewrites.cpp.base import (
    LoopSite,
    NewTunable,
    add_tunables,
    constant_trip,
    element_types,
    fresh,
    innermost,
    inside_tile,
    loops,
    tile_loop,
    whole,
)
from operators.rewrites.cpp.contraction import contracted
from operators.rewrites.cpp.ir.accesses import Scan
from operators.rewrites.cpp.ir.affine import ONE as UNIT
from operators.rewrites.cpp.ir.dependence import facts, has_raw
from operators.rewrites.cpp.ir.paths import loop_at, splice
from operators.rewrites.cpp.promote import promote
from operators.rewrites.cpp.vector_types import VECTORS

_VECTORS = frozenset(vector.name for vector in VECTORS.values())

_ZEROS = ir.Braces("", ())
"""The initial value of an array that one with a further size may have as well."""

_CONTRACTED = "contracted"
"""Detail of a site in the program whose rows of totals are scalars."""


@dataclass(frozen=True, slots=True)
class _Dim:
    """One tiled loop."""

    loop: ir.For
    """The loop."""
    size: str
    """The name of its tile size."""
    index: str
    """The index within the tile."""
    origin: str
    """The first index of the tile."""
    tile: str
    """The variable of the loop over tiles."""
    wide: bool
    """True where accesses have unit stride in it, so that tiles may become vectors."""


@dataclass(frozen=True, slots=True)
class _Phase:
    """Statements that share one tile nest, or a loop that runs around phases of its own."""

    stmts: tuple[ir.Stmt, ...] = ()
    loop: ir.For | None = None
    inner: tuple[_Phase, ...] = ()


def _phases(body: tuple[ir.Stmt, ...], changing: set[str]) -> tuple[_Phase, ...]:
    phases: list[_Phase] = []
    group: list[ir.Stmt] = []
    for stmt in body:
        if isinstance(stmt, ir.For) and not set().union(*map(ir.expr_names, ir.own_exprs(stmt))) & changing:
            if group:
                phases.append(_Phase(tuple(group)))
                group = []
            phases.append(_Phase((), stmt, _phases(stmt.body, changing)))
        else:
            group.append(stmt)
    return (*phases, _Phase(tuple(group))) if group else tuple(phases)


def _groups(phases: tuple[_Phase, ...]) -> list[tuple[ir.Stmt, ...]]:
    return [g for p in phases for g in ([p.stmts] if p.loop is None else _groups(p.inner))]


def _shared(phases: tuple[_Phase, ...]) -> set[str]:
    """Return the locals that several phases use and that therefore need one element per tile point."""
    groups = [(ir.names_in(group), group) for group in _groups(phases)]
    declared = {s.name for _, group in groups for s in group if isinstance(s, ir.Decl)}
    return {name for name in declared if sum(name in names for names, _ in groups) > 1}


def _jam(phases: tuple[_Phase, ...], dims: tuple[_Dim, ...], shared: set[str]) -> tuple[ir.Stmt, ...]:
    place = tuple(ir.Var(d.index) for d in dims)
    out: list[ir.Stmt] = []

    def spread(expr: ir.Expr) -> ir.Expr:
        match expr:
            case ir.Var(name) if name in shared:
                return ir.Index(name, place)
            case ir.Index(name, subs) if name in shared:
                return ir.Index(name, (*place, *subs))
            case _:
                return expr

    for phase in phases:
        if phase.loop is not None:
            out.append(replace(phase.loop, body=_jam(phase.inner, dims, shared)))
            continue
        points: list[ir.Stmt] = []
        for stmt in phase.stmts:
            if isinstance(stmt, ir.Decl) and stmt.name in shared:
                sizes = tuple(ir.Var(d.size) for d in dims)
                zeros = stmt.init if stmt.dims else None  # an array cannot be assigned
                kind = stmt.type.removeprefix("const ")
                out.append(ir.Decl(kind, stmt.name, (*sizes, *stmt.dims), zeros, notes=stmt.notes))
                if stmt.init is not None and zeros is None:
                    points.append(ir.Assign(ir.Var(stmt.name), "=", stmt.init))
            else:
                points.append(stmt)
        if points:
            out.append(_nest(ir.map_body(tuple(points), spread), dims))
    return tuple(out)


def _nest(body: tuple[ir.Stmt, ...], dims: tuple[_Dim, ...]) -> ir.Stmt:
    for dim in dims:
        body = ir.substitute(body, dim.loop.var, ir.Binary("+", ir.Var(dim.origin), ir.Var(dim.index)))
    for dim in reversed(dims):
        body = (tile_loop(dim.index, ir.Var(dim.size), body, unroll=not dim.wide),)
    return body[0]


def _clamped(dim: _Dim) -> ir.Decl:
    end = ir.Binary("+", ir.Var(dim.tile), ir.Var(dim.size))
    upper = dim.loop.upper
    init = ir.Ternary(ir.Binary("<=", end, upper), ir.Var(dim.tile), ir.Binary("-", upper, ir.Var(dim.size)))
    return ir.Decl("const int64_t", dim.origin, (), init)


def _overlapped(dims: tuple[_Dim, ...], tile: tuple[ir.Stmt, ...], nest: ir.For) -> tuple[ir.Stmt, ...]:
    """Return tiles that overlap at the end of the range; the original nest for ranges shorter than one tile."""
    for dim in dims:
        tile = (ir.For(dim.tile, ir.ZERO, dim.loop.upper, ir.Var(dim.size), (_clamped(dim), *tile)),)
    checks: ir.Expr | None = None
    for dim in dims:
        check = ir.Binary(">=", dim.loop.upper, ir.Var(dim.size))
        checks = check if checks is None else ir.Binary("&&", checks, check)
    return tile if checks is None else (ir.If(checks, tile, (nest,), notes=nest.notes),)


def _with_remainders(
    dims: tuple[_Dim, ...], tile: tuple[ir.Stmt, ...], body: tuple[ir.Stmt, ...]
) -> tuple[ir.Stmt, ...]:
    """Return whole tiles, then the original loops over the rest of each dimension."""
    for dim in dims:
        tile = (ir.For(dim.origin, ir.ZERO, whole(dim.loop.upper, ir.Var(dim.size)), ir.Var(dim.size), tile),)
    out = list(tile)
    for position, dim in enumerate(dims):
        rest = body
        for other in reversed(dims[position:]):
            low = whole(other.loop.upper, ir.Var(other.size)) if other is dim else ir.ZERO
            rest = (replace(other.loop, lower=low, body=rest, notes=()),)
        for before in reversed(dims[:position]):
            rest = (replace(before.loop, upper=whole(before.loop.upper, ir.Var(before.size)), body=rest, notes=()),)
        out += rest
    return tuple(out)


def _unit_strides(program: ir.Program, path: ir.Path, var: str) -> int:
    """Return the number of accesses in the loop at `path` with unit stride in `var`."""
    scan: Scan = facts(program, path).scan
    count = 0
    for access in scan.accesses:
        if access.index is None:
            continue
        own = [s for s in access.loops if s.startswith(f"{var}@")]
        stride = access.index.stride(own[-1]) if own else None
        count += stride == UNIT
    return count


class RegisterTile:
    """Unroll-and-jam of one or two parallel loops over the loops inside them."""

    name = "register_tile"

    def sites(self, program: ir.Program) -> list[LoopSite]:
        """Return pairs of loops first, then single loops, each from the inside out; last pairs over rows of totals."""
        found, other = self._sites(program), contracted(program)
        if other is None:
            return found
        known = {id(loop) for _, loop in loops(program)}
        new = [site for site in self._sites(other) if id(loop_at(other.body, site.path)) not in known]
        return found + [replace(site, detail=(*site.detail, _CONTRACTED)) for site in new if site.detail == ("2",)]

    def _sites(self, program: ir.Program) -> list[LoopSite]:
        pairs, singles = [], []
        for path, loop in loops(program):
            if not self._tileable(program, path, loop):
                continue
            inner = loop.body[0]
            if len(loop.body) == 1 and isinstance(inner, ir.For) and not innermost(inner):
                bounds = ir.expr_names(inner.lower) | ir.expr_names(inner.upper)
                if (
                    loop.var not in bounds
                    and self._tileable(program, (*path, 0), inner)
                    and self._fits(program, inner.body, loop)
                ):
                    pairs.append(LoopSite(path, f"loops {loop.var}, {inner.var}", ("2",)))
            if self._fits(program, loop.body, loop) and self._pays(program, path, loop):
                singles.append(LoopSite(path, f"loop {loop.var}", ("1",)))
        covered = [site.path for site in pairs] + [(*site.path, 0) for site in pairs]
        return [*reversed(pairs), *(site for site in reversed(singles) if site.path not in covered)]

    def _tileable(self, program: ir.Program, path: ir.Path, loop: ir.For) -> bool:
        if loop.lower != ir.ZERO or loop.step != ir.ONE or loop.pragmas or innermost(loop) or has_raw(loop.body):
            return False
        if constant_trip(program, loop) or inside_tile(program, path):
            return False
        return facts(program, path).parallel

    def _fits(self, program: ir.Program, body: tuple[ir.Stmt, ...], loop: ir.For) -> bool:
        """Say whether the body has a loop to jam over, declares nothing twice, and no pointer or table of numbers."""
        declared = [s for s in ir.walk_stmts(body) if isinstance(s, ir.Decl)]
        names = [s.name for s in declared]
        unfit = any("*" in s.type or (s.dims and s.init not in (None, _ZEROS)) for s in declared)
        phases = _phases(body, {loop.var})
        jams = any(p.loop is not None and not constant_trip(program, p.loop) for p in phases)
        nested = any(
            isinstance(s, (ir.Block, ir.If)) and any(isinstance(t, ir.For) for t in ir.walk_stmts((s,))) for s in body
        )
        return jams and not nested and not unfit and len(names) == len(set(names)) and not self._variant(phases)

    def _pays(self, program: ir.Program, path: ir.Path, loop: ir.For) -> bool:
        """Say whether to jam a single loop: else it would take the vectors from the loops inside."""
        inner = [s for s in loop.body if isinstance(s, ir.For)]
        return _has_lanes(loop.body) or any(
            _unit_strides(program, (*path, loop.body.index(s)), loop.var) for s in inner
        )

    def _variant(self, phases: tuple[_Phase, ...]) -> bool:
        return any(isinstance(s, ir.For) for group in _groups(phases) for s in group)

    def apply(self, program: ir.Program, site: LoopSite) -> ir.Program:
        """Build the tile, its phases and the treatment of the ends."""
        if _CONTRACTED in site.detail:
            program = contracted(program) or program
        nest = loop_at(program.body, site.path)
        inner = nest.body[0] if site.detail != ("1",) else None
        tiled = [nest, inner] if isinstance(inner, ir.For) else [nest]
        dims = self._dims(program, site, tiled)
        body = promote(program, tiled[-1].body)
        phases = _phases(body, {d.loop.var for d in dims})
        tile = _jam(phases, dims, _shared(phases))
        written = {
            s.target.base for s in ir.walk_stmts(body) if isinstance(s, ir.Assign) and isinstance(s.target, ir.Index)
        }
        local = {s.name for s in ir.walk_stmts(body) if isinstance(s, ir.Decl)}
        if (written - local) & self._read(body):
            new = _with_remainders(dims, tile, tiled[-1].body)
        else:
            new = _overlapped(dims, tile, nest)
        changed = replace(program, body=splice(program.body, site.path, new))
        return _tunables(changed, dims, double="double" in element_types(program).values())

    def _read(self, body: tuple[ir.Stmt, ...]) -> set[str]:
        names: set[str] = set()
        for stmt in ir.walk_stmts(body):
            for expr in ir.own_exprs(stmt):
                if (
                    isinstance(stmt, ir.Assign)
                    and stmt.op == "="
                    and expr is stmt.target
                    and isinstance(expr, ir.Index)
                ):
                    names |= {n for sub in expr.subs for n in ir.expr_names(sub)}
                else:
                    names |= ir.expr_names(expr)
        return names

    def _dims(self, program: ir.Program, site: LoopSite, tiled: list[ir.For]) -> tuple[_Dim, ...]:
        dims: list[_Dim] = []
        lanes = _has_lanes(tiled[-1].body)
        tiled = sorted(tiled, key=lambda loop: _unit_strides(program, site.path, loop.var))
        for loop in tiled:
            wide = not lanes and loop is tiled[-1] and _unit_strides(program, site.path, loop.var) > 0
            size = fresh(program, "NR" if wide or dims else "MR", *(d.size for d in dims))
            index = fresh(program, "s" if wide or dims else "r", *(d.index for d in dims))
            origin, tile = fresh(program, f"{loop.var}0"), fresh(program, f"{loop.var}t")
            dims.append(_Dim(loop, size, index, origin, tile, wide))
        return tuple(dims)


def _has_lanes(body: tuple[ir.Stmt, ...]) -> bool:
    """Say whether the body keeps vectors or several accumulators per point already."""
    return any(isinstance(s, ir.Decl) and (s.dims or s.type in _VECTORS) for s in ir.walk_stmts(body))


def _tunables(program: ir.Program, dims: tuple[_Dim, ...], *, double: bool) -> ir.Program:
    """Declare the tile sizes; together they must leave the accumulators in registers."""
    if dims[-1].wide:
        values = (8, 16, 24, 32) if double else (16, 32, 48, 64)
        last = NewTunable(dims[-1].size, values[1], values)
        first, limit = (2, 4, 6, 8, 12), 192 if double else 384
    else:
        last = NewTunable(dims[-1].size, 4, (2, 3, 4, 6, 8))
        first, limit = (2, 3, 4, 6, 8), 24
    if len(dims) == 1:
        return add_tunables(program, [last])
    rows = NewTunable(dims[0].size, 8 if dims[-1].wide else 4, first)
    return add_tunables(program, [rows, last], f"{rows.name} * {last.name} <= {limit}")
