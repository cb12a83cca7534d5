"""Unrolling of innermost loops by a tunable factor, left to the compiler's own pragma.

Always legal.  It pays where loop control or address updates weigh as much as the body.
"""

from dataclasses import replace

from operators.rewrites.cpp.base import LoopSite, NewTunable, add_tunables, constant_trip, fresh, inside_tile, loops
from operators.rewrites.cpp.ir.dependence import facts, has_raw
from operators.rewrites.cpp.ir.paths import at, splice
from operators.rewrites.cpp.ir.syntax import ONE, ZERO, For, Program, walk_stmts


class Unroll:
    """Unroll pragma for a loop."""

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
        loop = at(program.body, site.path)
        if not isinstance(loop, For):
            raise ValueError("no loop at the site")
        factor = fresh(program, "UNROLL")
        new = replace(loop, pragmas=(f"GCC unroll {factor}",))
        program = replace(program, body=splice(program.body, site.path, (new,)))
        return add_tunables(program, [NewTunable(factor, 4, (2, 4, 8))])
