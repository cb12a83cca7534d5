"""Vectorisation with GCC vector types.

Two forms.  A loop over an array with unit stride runs in steps of one vector, followed by the scalar loop for
what is left; scalar sums and extrema become lane-wise accumulators that are combined once behind the loop. A sum in
double over floats gets float lanes, whose total it takes.
The constant-trip loops over a local tile (as register tiling makes them) run over vectors of the tile
instead, and the tile itself is retyped.  Legal when the loop is parallel or carries only reductions over
scalars and every access has unit stride or is the same for all lanes.
From: Allen and Kennedy, "Automatic translation of Fortran programs to vector form", 1987.
"""

from collections import Counter
from dataclasses import replace

import operators.rewrites.cpp.ir.syntax as ir
from operators.rewrites.cpp.base import (
    LoopSite,
    add_include,
    add_lines,
    constant_trip,
    element_types,
    fresh,
    innermost,
    inside_tile,
    loops,
    mul,
    whole_steps,
)
from operators.rewrites.cpp.ir.dependence import facts, has_raw
from operators.rewrites.cpp.ir.paths import at, splice
from operators.rewrites.cpp.vector_form import NoVector, VectorForm
from operators.rewrites.cpp.vector_types import (
    VECTORS,
    VectorType,
    declare,
    declare_function,
    declare_reduce,
    reduce_name,
)


def scalar_types(program: ir.Program) -> dict[str, str]:
    """Return the types of scalars and of array elements, by name, without names declared with several types."""
    types = {p.name: p.type.removeprefix("const ") for p in program.params if not p.pointer}
    clashing: set[str] = set()
    for stmt in ir.walk_stmts(program.body):
        if isinstance(stmt, ir.Decl) and not stmt.dims and "*" not in stmt.type:
            kind = stmt.type.removeprefix("const ")
            if types.setdefault(stmt.name, kind) != kind:
                clashing.add(stmt.name)
    types.update(element_types(program))
    return {name: kind for name, kind in types.items() if name not in clashing}


def _element(loop: ir.For, types: dict[str, str]) -> VectorType | None:
    kinds = {types.get(e.base) for e in ir.all_exprs(loop.body) if isinstance(e, ir.Index)}
    (kind, *rest) = kinds or {None}
    return VECTORS.get(kind or "") if not rest else None


class Vectorize:
    """Vector form of unit-stride loops and tile loops."""

    name = "vectorize"

    def sites(self, program: ir.Program) -> list[LoopSite]:
        """Return tiles first, then all rows at once, then single rows."""
        tiles = [LoopSite(path, f"tile of {size}", ("tile", size)) for path, size in self._tiles(program)]
        rows = [LoopSite(path, f"loop {loop.var} of {_touched(loop)}", ("row",)) for path, loop in self._rows(program)]
        if len(rows) > 1:
            rows.insert(0, LoopSite((), f"all {len(rows)} unit-stride loops", ("all",)))
        return tiles + rows

    def _rows(self, program: ir.Program) -> list[tuple[ir.Path, ir.For]]:
        types = scalar_types(program)
        found = []
        for path, loop in loops(program):
            simple = isinstance(loop.lower, ir.Num) and loop.step == ir.ONE and innermost(loop) and not loop.pragmas
            if not simple or constant_trip(program, loop) or inside_tile(program, path):
                continue
            if self._row_form(program, path, loop, types) is not None:
                found.append((path, loop))
        return found

    def _row_form(
        self, program: ir.Program, path: ir.Path, loop: ir.For, types: dict[str, str]
    ) -> tuple[VectorForm, tuple[ir.Stmt, ...], dict[str, str]] | None:
        vector = _element(loop, types)
        known = facts(program, path)
        if vector is None or not known.reorderable or has_raw(loop.body):
            return None
        ops = dict(known.reductions)
        if any(not _in_lanes(types.get(name), op, vector) for name, op in ops.items()):
            return None
        arrays = {e.base for e in ir.all_exprs(loop.body) if isinstance(e, ir.Index)}
        if arrays & ops.keys():
            return None
        names = {name: fresh(program, f"{name}_v") for name in ops}
        form = VectorForm(loop.var, vector, types, sums=names)
        try:
            body = form.body(loop.body)
        except NoVector:
            return None
        return form, body, ops

    def apply(self, program: ir.Program, site: LoopSite) -> ir.Program:
        """Vectorise one loop, all loops, or a tile."""
        if site.detail[0] == "tile":
            return self._apply_tile(program, site)
        chosen = self._rows(program) if site.detail == ("all",) else [(site.path, at(program.body, site.path))]
        for path, loop in reversed(chosen):
            if isinstance(loop, ir.For):
                program = self._apply_row(program, path, loop)
        return program

    def _apply_row(self, program: ir.Program, path: ir.Path, loop: ir.For) -> ir.Program:
        made = self._row_form(program, path, loop, scalar_types(program))
        if made is None:
            raise ValueError("the loop has no vector form")
        form, body, ops = made
        vector = form.vector
        lanes = ir.Var(vector.lanes)
        main = replace(loop, upper=whole_steps(loop, lanes), step=lanes, body=body)
        rest = replace(loop, lower=main.upper, notes=())
        before: list[ir.Stmt] = []
        after: list[ir.Stmt] = []
        zero = ir.Braces(vector.name, ())
        for name, op in sorted(ops.items()):
            wide = form.sums[name]
            first: ir.Expr = ir.Cast(vector.element, ir.ONE) if op == "*" else ir.Var(name)
            start: ir.Expr = zero if op == "+" else ir.Binary("-", first, zero)
            before.append(ir.Decl(vector.name, wide, (), start))
            after.append(_combine(name, op, ir.Call(reduce_name(vector, op), (ir.Var(wide),))))
        new = (*before, main, *after, rest)
        program = replace(program, body=splice(program.body, path, new))
        return _declared(program, form, set(ops.values()))

    # ------------------------------------------------------------------ tiles

    def _tiles(self, program: ir.Program) -> list[tuple[ir.Path, str]]:
        found = []
        types = scalar_types(program)
        for path, loop in loops(program):
            sizes = [s.dims[-1] for s in loop.body if isinstance(s, ir.Decl) and s.dims]
            for size in dict.fromkeys(sizes):
                if isinstance(size, ir.Var) and self._tile_form(loop.body, size, types) is not None:
                    found.append((path, size.name))
        return found

    def _tile_form(
        self, body: tuple[ir.Stmt, ...], size: ir.Var, types: dict[str, str]
    ) -> tuple[VectorForm, tuple[ir.Stmt, ...]] | None:
        tiles = [s for s in body if isinstance(s, ir.Decl) and s.dims and s.dims[-1] == size]
        vector = VECTORS.get(tiles[0].type)
        if vector is None or any(s.type != vector.element or s.init is not None for s in tiles):
            return None
        form = VectorForm("", vector, types, frozenset(s.name for s in tiles))
        try:
            new = tuple(self._retyped(stmt, form, size) for stmt in body)
        except NoVector:
            return None
        return form, new

    def _retyped(self, stmt: ir.Stmt, form: VectorForm, size: ir.Var) -> ir.Stmt:
        vector = form.vector
        if isinstance(stmt, ir.Decl) and stmt.name in form.tiles:
            count = ir.Binary("/", size, ir.Var(vector.lanes))
            return replace(stmt, type=vector.name, dims=(*stmt.dims[:-1], count))
        if isinstance(stmt, ir.For) and stmt.upper == size and innermost(stmt):
            return self._tile_loop(stmt, form, size)
        if isinstance(stmt, ir.For):
            return replace(stmt, body=tuple(self._retyped(s, form, size) for s in stmt.body))
        if any(isinstance(e, ir.Index) and e.base in form.tiles for e in ir.all_exprs((stmt,))):
            raise NoVector("a scalar element of the tile")
        return stmt

    def _tile_loop(self, loop: ir.For, form: VectorForm, size: ir.Var) -> ir.Stmt:
        uses = [e for e in ir.all_exprs(loop.body) if isinstance(e, ir.Index) and e.base in form.tiles]
        if any(e.subs[-1] != ir.Var(loop.var) or any(loop.var in ir.expr_names(s) for s in e.subs[:-1]) for e in uses):
            raise NoVector("a tile element of another lane")
        form.var, form.own = loop.var, set()
        body = form.body(loop.body)
        lanes = ir.Var(form.vector.lanes)

        def whole_vectors(expr: ir.Expr) -> ir.Expr:
            match expr:
                case ir.Index(base, (*first, last)) if base in form.tiles:
                    return ir.Index(base, (*first, ir.Var("\0") if last == ir.Var(loop.var) else last))
                case _:
                    return expr

        body = ir.map_body(body, whole_vectors)
        body = ir.substitute(body, loop.var, mul(ir.Var(loop.var), lanes))
        body = ir.substitute(body, "\0", ir.Var(loop.var))
        return replace(loop, upper=ir.Binary("/", size, lanes), body=body, pragmas=("GCC unroll 16",))

    def _apply_tile(self, program: ir.Program, site: LoopSite) -> ir.Program:
        loop = at(program.body, site.path)
        size = ir.Var(site.detail[1])
        made = None
        if isinstance(loop, ir.For):
            made = self._tile_form(loop.body, size, scalar_types(program))
        if made is None or not isinstance(loop, ir.For):
            raise ValueError("the tile has no vector form")
        form, body = made
        program = replace(program, body=splice(program.body, site.path, (replace(loop, body=body),)))
        program = _declared(program, form, set())
        return add_lines(program, [f"// tune-where: {size.name} % {form.vector.lanes} == 0"])


def _in_lanes(kind: str | None, op: str, vector: VectorType) -> bool:
    """Say whether a reduction over a scalar of a type may be split over the lanes of a vector."""
    return kind == vector.element or (kind == "double" and op == "+" and vector.element == "float")


def _touched(loop: ir.For) -> str:
    names = Counter(e.base for e in ir.all_exprs(loop.body) if isinstance(e, ir.Index))
    return ", ".join(sorted(names)) or "scalars"


def _combine(name: str, op: str, value: ir.Expr) -> ir.Stmt:
    target = ir.Var(name)
    if op in "+*":
        return ir.Assign(target, f"{op}=", value)
    return ir.Assign(target, "=", ir.Call(f"std::{op}", (target, value)))


def _declared(program: ir.Program, form: VectorForm, ops: set[str]) -> ir.Program:
    program = declare(program, form.vector)
    for op in sorted(ops):
        program = declare_reduce(add_include(program, "algorithm"), form.vector, op)
    for function in sorted(form.functions):
        program = declare_function(program, form.vector, function)
    return program
