"""Packing: copy the part of an input that a loop reuses into a contiguous, aligned buffer.

The buffer is laid out in the order in which the loops inside read it, so strided or transposed reads become
unit-stride reads.  Legal for read-only inputs whose subscript does not depend on the reusing loop and whose
other loops run from zero to bounds known outside it.  The copy stands right in front of the reusing loop.
From: Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008.
"""

from dataclasses import dataclass, replace

import operators.rewrites.cpp.ir.syntax as ir
from operators.rewrites.cpp.base import LoopSite, add, add_include, constant_trip, element_types, fresh, loops, mul
from operators.rewrites.cpp.ir.accesses import ALLOCATE
from operators.rewrites.cpp.ir.affine import Poly, to_poly
from operators.rewrites.cpp.ir.dependence import has_raw
from operators.rewrites.cpp.ir.paths import loop_at, splice
from operators.rewrites.cpp.vector_types import VECTORS


@dataclass(frozen=True, slots=True)
class _Dim:
    """One dimension of the packed buffer."""

    loop: ir.For
    """The loop that runs over it."""
    size: ir.Expr
    """Its length, in elements."""
    index: ir.Expr
    """Its index in a read."""
    constant: bool
    """True where the loop has constant bounds."""


@dataclass(frozen=True, slots=True)
class _Panel:
    """The element to pack, as it is read, and the dimensions of the buffer."""

    element: ir.Index
    dims: tuple[_Dim, ...]


def _reads(
    body: tuple[ir.Stmt, ...], around: tuple[ir.For, ...] = ()
) -> list[tuple[ir.Index, bool, tuple[ir.For, ...]]]:
    """Return all array elements, each with a flag for vector reads and the loops around it."""
    found: list[tuple[ir.Index, bool, tuple[ir.For, ...]]] = []
    for stmt in body:
        exprs = [e for own in ir.own_exprs(stmt) for e in ir.walk(own)]
        wide = {e.value for e in exprs if isinstance(e, ir.RefCast)}
        found += [(e, e in wide, around) for e in exprs if isinstance(e, ir.Index)]
        if isinstance(stmt, ir.For):
            found += _reads(stmt.body, (*around, stmt))
    return found


class Pack:
    """Copy of a reused panel of an input into a contiguous buffer."""

    name = "pack"

    def sites(self, program: ir.Program) -> list[LoopSite]:
        """Return inputs with strided reads, each in front of the outermost tile loop that reuses them."""
        found, done = [], set()
        inputs = {p.name for p in program.params if p.pointer and p.type.startswith("const ")}
        for path, loop in loops(program):
            if loop.step == ir.ONE or constant_trip(program, loop) or has_raw(loop.body):
                continue
            for element, wide, around in _reads(loop.body):
                if element.base not in inputs or (element, path[:1]) in done:
                    continue
                if self._panel(program, loop, (element, wide, around)) is not None:
                    done.add((element, path[:1]))
                    found.append(LoopSite(path, f"{element.base} in front of loop {loop.var}", (element.base,)))
        return found

    def _panel(
        self, program: ir.Program, loop: ir.For, read: tuple[ir.Index, bool, tuple[ir.For, ...]]
    ) -> _Panel | None:
        element, wide, around = read
        inside = {s.name for s in ir.walk_stmts(loop.body) if isinstance(s, ir.Decl)} | {loop.var}
        names = ir.expr_names(element.subs[0])
        if len(element.subs) != 1 or names & inside:
            return None
        used = [inner for inner in around if inner.var in names]
        hidden = inside | {inner.var for inner in around}
        dims: list[_Dim] = []
        for inner in used:
            if inner.lower != ir.ZERO or inner.step != ir.ONE or ir.expr_names(inner.upper) & hidden:
                return None
            dims.append(_Dim(inner, inner.upper, ir.Var(inner.var), constant_trip(program, inner)))
        if wide:
            dims = self._with_lanes(program, element, dims)
        return _Panel(element, tuple(dims)) if dims and _strided(element, dims) else None

    def _with_lanes(self, program: ir.Program, element: ir.Index, dims: list[_Dim]) -> list[_Dim]:
        """Return the dimensions with the last one, which counts vectors, in elements; empty where it cannot be."""
        lanes = VECTORS[element_types(program)[element.base]].lanes
        match dims[-1].size if dims else ir.ZERO:
            case ir.Binary("/", size, ir.Var(part)) if part == lanes:
                index = mul(ir.Var(dims[-1].loop.var), ir.Var(lanes))
                known = index in ir.walk(element.subs[0])
                return [*dims[:-1], replace(dims[-1], size=size, index=index)] if known else []
            case _:
                return []

    def apply(self, program: ir.Program, site: LoopSite) -> ir.Program:
        """Insert the copy and read from the buffer."""
        loop = loop_at(program.body, site.path)
        reads = [read for read in _reads(loop.body) if read[0].base == site.detail[0]]
        panels = (self._panel(program, loop, read) for read in reads)
        panel = next((panel for panel in panels if panel is not None), None)
        if panel is None:
            raise ValueError("no strided read at the site")
        element, dims = panel.element, panel.dims
        kind = element_types(program)[element.base]
        name = fresh(program, f"{element.base}_pack")
        packed = ir.Index(name, (_linear([(d.index, d.size) for d in dims]),))
        new = replace(loop, body=ir.map_body(loop.body, lambda e: packed if e == element else e), notes=())
        copy = _copy(program, panel, name)
        buffer = (
            _allocate(name, kind, [d.size for d in dims]),
            copy,
            new,
            ir.ExprStmt(ir.Call("std::free", (ir.Var(name),))),
        )
        buffer = (replace(buffer[0], notes=loop.notes), *buffer[1:])
        body = splice(program.body, site.path, buffer)
        return add_include(replace(program, body=body), "cstdlib")


def _strided(element: ir.Index, dims: list[_Dim]) -> bool:
    """Say whether reading in loop order jumps through memory."""
    sub = element.subs[0]
    poly = to_poly(sub, {name: Poly.symbol(name) for name in ir.expr_names(sub)})
    if poly is None:
        return False
    strides = [poly.stride(d.loop.var) for d in dims]
    if any(s is None for s in strides):
        return False
    far = [bool(s.symbols) for s in strides if s is not None]
    if isinstance(dims[-1].index, ir.Binary):
        far[-1] = False
    return far[-1] or (dims[-1].constant and any(far))


def _linear(places: list[tuple[ir.Expr, ir.Expr]]) -> ir.Expr:
    """Return the row-major index of `(index, size)` pairs."""
    linear = places[0][0]
    for index, size in places[1:]:
        linear = add(mul(linear, size), index)
    return linear


def _allocate(name: str, kind: str, sizes: list[ir.Expr]) -> ir.Stmt:
    count: ir.Expr = ir.Num(f"sizeof({kind})")
    for size in sizes:
        count = mul(count, size)
    line = ir.Num("64")
    rounded = mul(ir.Binary("/", add(count, ir.Num("63")), line), line)
    return ir.Decl(f"{kind}* const", name, (), ir.Cast(f"{kind}*", ir.Call(ALLOCATE, (line, rounded))))


def _copy(program: ir.Program, panel: _Panel, name: str) -> ir.Stmt:
    source: ir.Expr = panel.element
    places = []
    for dim in panel.dims:
        if isinstance(dim.index, ir.Binary):
            var = fresh(program, "s")
            source = ir.map_expr(source, lambda e, old=dim.index, new=var: ir.Var(new) if e == old else e)  # type: ignore[misc]
        else:
            var = dim.loop.var
        places.append((ir.Var(var), dim.size))
    body: tuple[ir.Stmt, ...] = (ir.Assign(ir.Index(name, (_linear([(v, s) for v, s in places]),)), "=", source),)
    for (var_expr, size), dim in zip(reversed(places), reversed(panel.dims), strict=True):
        body = (ir.For(var_expr.name, ir.ZERO, size, ir.ONE, body, dim.loop.type),)
    return body[0]
