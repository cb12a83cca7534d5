"""OpenMP worksharing of an outer parallel loop.

Legal for loops whose iterations are independent.  Overlapping tiles at the end of a range store equal values.
"""

from dataclasses import replace

from operators.rewrites.cpp.base import LoopSite, constant_trip, loops
from operators.rewrites.cpp.ir.dependence import facts
from operators.rewrites.cpp.ir.paths import at, splice
from operators.rewrites.cpp.ir.syntax import For, Program, walk_stmts

PRAGMA = "omp parallel for schedule(static)"


class Parallel:
    """Division of the iterations of a loop among threads."""

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
        loop = at(program.body, site.path)
        if not isinstance(loop, For):
            raise ValueError("no loop at the site")
        return replace(program, body=splice(program.body, site.path, (replace(loop, pragmas=(PRAGMA,)),)))
