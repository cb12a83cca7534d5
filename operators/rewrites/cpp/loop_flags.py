"""Pragmas of loops, which leave the work to the compiler: threads for an outer loop, unrolling of an inner one."""

from dataclasses import replace

from operators.rewrites.cpp.base import LoopSite, NewTunable, add_tunables, constant_trip, fresh, inside_tile, loops
from operators.rewrites.cpp.ir.dependence import facts, has_raw
from operators.rewrites.cpp.ir.paths import loop_at, splice
from operators.rewrites.cpp.ir.syntax import ONE, ZERO, For, Program, walk_stmts

PRAGMA = "omp parallel for schedule(static)"


class Parallel:
    """Division of the iterations of a loop among threads.

    OpenMP does it.  Legal for loops whose iterations are independent.  Overlapping tiles at the end of a range store
    equal values.
    """

    name = "parallel"

    def sites(self, program: Program) -> list[LoopSite]:
        """Return outermost parallel loops of a program that has no threads yet."""
        if any(isinstance(s, For) and any("omp" in p for p in s.pragmas) for s in walk_stmts(program.body)):
            return []
        found: list[LoopSite] = []
        for path, loop in loops(program):
            covered = any(path[: len(site.path)] == site.path for site in found)
            if not covered and not loop.pragmas and not constant_trip(program, loop) and facts(program, path).parallel:
                found.append(LoopSite(path, f"loop {loop.var}"))
        return found

    def apply(self, program: Program, site: LoopSite) -> Program:
        """Add the OpenMP pragma."""
        return _with_pragma(program, site, PRAGMA)


class Unroll:
    """Unroll pragma for a loop.

    The factor is tunable.  Always legal.  It pays where loop control or address updates weigh as much as the body.
    """

    name = "unroll"

    def sites(self, program: Program) -> list[LoopSite]:
        """Return reduction loops over vectors or over tiles, without a pragma."""
        found = []
        for path, loop in loops(program):
            if loop.pragmas or constant_trip(program, loop) or inside_tile(program, path) or has_raw(loop.body):
                continue
            inner = [s for s in walk_stmts(loop.body) if isinstance(s, For)]
            if loop.lower != ZERO or not all(constant_trip(program, s) for s in inner):
                continue
            if (inner or loop.step != ONE) and facts(program, path).reductions:
                found.append(LoopSite(path, f"loop {loop.var}"))
        return found

    def apply(self, program: Program, site: LoopSite) -> Program:
        """Add the pragma with a tunable factor."""
        factor = fresh(program, "UNROLL")
        program = _with_pragma(program, site, f"GCC unroll {factor}")
        return add_tunables(program, [NewTunable(factor, 4, (2, 4, 8))])


def _with_pragma(program: Program, site: LoopSite, pragma: str) -> Program:
    marked = replace(loop_at(program.body, site.path), pragmas=(pragma,))
    return replace(program, body=splice(program.body, site.path, (marked,)))
