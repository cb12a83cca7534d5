"""Accumulator splitting: one running sum or extremum becomes several independent ones.

The chain of dependent additions limits a reduction to one step per latency; with several partial
accumulators the steps overlap, and for scalars the compiler may put the parts into one vector register.
Legal for loops that carry only reductions over local scalars (or vectors); reassociation is allowed.
From: Bryant and O'Hallaron, "Computer Systems", section on multiple accumulators.
"""

from dataclasses import replace

import operators.rewrites.cpp.ir.syntax as ir
from operators.rewrites.cpp.base import (
    LoopSite,
    NewTunable,
    add,
    add_tunables,
    constant_trip,
    fresh,
    innermost,
    inside_tile,
    loops,
    mul,
    tile_loop,
    whole_steps,
)
from operators.rewrites.cpp.ir.accesses import ArrayAccess
from operators.rewrites.cpp.ir.dependence import facts, has_raw
from operators.rewrites.cpp.ir.paths import at, splice
from operators.rewrites.cpp.vector_types import VECTORS
from operators.rewrites.cpp.vectorize import scalar_types

_SCALARS = frozenset(VECTORS)
_VECTORS = frozenset(v.name for v in VECTORS.values())


class SplitAccumulator:
    """Several partial accumulators for a reduction loop."""

    name = "split_accumulator"

    def sites(self, program: ir.Program) -> list[LoopSite]:
        """Return innermost loops that carry reductions over scalars, all of them at once first."""
        found = []
        types = scalar_types(program)
        for path, loop in loops(program):
            if self._simple(program, path, loop):
                ops = self._reductions(program, path, types)
                if ops:
                    found.append(LoopSite(path, f"{', '.join(sorted(ops))} in loop {loop.var}", ("one",)))
        if len(found) > 1:
            found.insert(
                0, LoopSite((), f"all {len(found)} reductions", ("all", *(".".join(map(str, s.path)) for s in found)))
            )
        return found

    def _simple(self, program: ir.Program, path: ir.Path, loop: ir.For) -> bool:
        stepped = loop.step == ir.ONE or (
            isinstance(loop.step, ir.Var) and constant_trip(program, replace(loop, upper=ir.ONE))
        )
        plain = (
            isinstance(loop.lower, ir.Num)
            and stepped
            and innermost(loop)
            and not loop.pragmas
            and not has_raw(loop.body)
        )
        return plain and not constant_trip(program, loop) and not inside_tile(program, path)

    def _reductions(self, program: ir.Program, path: ir.Path, types: dict[str, str]) -> dict[str, str]:
        known = facts(program, path)
        ops = dict(known.reductions)
        fits = known.reorderable and all(types.get(name) in _SCALARS | _VECTORS for name in ops)
        arrays = {access.array for access in known.scan.accesses}
        near = all(_near(access, known.symbol) for access in known.scan.accesses)
        return ops if fits and near and not arrays & ops.keys() else {}

    def apply(self, program: ir.Program, site: LoopSite) -> ir.Program:
        """Split the reductions of the loop."""
        if site.detail[0] == "one":
            return self._split(program, site.path)
        for key in reversed(site.detail[1:]):
            program = self._split(program, tuple(map(int, key.split("."))))
        return program

    def _split(self, program: ir.Program, path: ir.Path) -> ir.Program:
        loop = at(program.body, path)
        types = scalar_types(program)
        ops = self._reductions(program, path, types)
        if not isinstance(loop, ir.For) or not ops:
            raise ValueError("no reduction at the site")
        scalar = any(types[name] in _SCALARS for name in ops)
        parts, index = fresh(program, "PARTS"), fresh(program, "p")
        block = mul(loop.step, ir.Var(parts))
        before: list[ir.Stmt] = []
        after: list[ir.Stmt] = []
        body = ir.substitute(loop.body, loop.var, add(ir.Var(loop.var), mul(ir.Var(index), loop.step)))
        for name, op in sorted(ops.items()):
            some = fresh(program, f"{name}_p")
            part = ir.Index(some, (ir.Var(index),))
            body = _replaced(body, name, part)
            before += [
                ir.Decl(types[name], some, (ir.Var(parts),)),
                tile_loop(index, ir.Var(parts), (ir.Assign(part, "=", _identity(name, op, types[name])),)),
            ]
            after.append(tile_loop(index, ir.Var(parts), (_joined(name, op, part),), unroll=not scalar))
        main = replace(
            loop,
            upper=whole_steps(loop, block),
            step=block,
            body=(tile_loop(index, ir.Var(parts), body, unroll=not scalar),),
        )
        rest = replace(loop, lower=main.upper, notes=())
        program = replace(program, body=splice(program.body, path, (*before, main, *after, rest)))
        tunable = NewTunable(parts, 16, (4, 8, 16, 32)) if scalar else NewTunable(parts, 4, (2, 4, 8))
        return add_tunables(program, [tunable])


def _near(access: ArrayAccess, symbol: str) -> bool:
    """Say whether consecutive iterations read neighbours or the same element."""
    stride = None if access.index is None else access.index.stride(symbol)
    return stride is not None and not stride.symbols


def _replaced(body: tuple[ir.Stmt, ...], name: str, part: ir.Expr) -> tuple[ir.Stmt, ...]:
    return ir.map_body(body, lambda e: part if e == ir.Var(name) else e)


def _identity(name: str, op: str, kind: str) -> ir.Expr:
    """Return a neutral start value: extrema may start from the running value itself."""
    if op == "+":
        return ir.Num("0") if kind in _SCALARS else ir.Braces(kind, ())
    if op == "*":
        return ir.Num("1") if kind in _SCALARS else ir.Binary("+", ir.Braces(kind, ()), ir.Num("1"))
    return ir.Var(name)


def _joined(name: str, op: str, part: ir.Expr) -> ir.Stmt:
    total = ir.Var(name)
    if op in "+*":
        return ir.Assign(total, f"{op}=", part)
    return ir.Assign(total, "=", ir.Ternary(ir.Binary(">" if op == "max" else "<", part, total), part, total))
