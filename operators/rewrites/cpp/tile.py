"""Loop tiling: strip-mine the two inner loops of a perfect nest and move the tile loops out of the nest.

The working set of a tile then fits a cache.  Legal when all loops of the nest may run in any order.
From: Wolf and Lam, "A data locality optimizing algorithm", 1991.
"""

from dataclasses import replace

from operators.rewrites.cpp.base import (
    LoopSite,
    NewTunable,
    add_include,
    add_tunables,
    constant_trip,
    fresh,
    innermost,
    inside_tile,
    loops,
)
from operators.rewrites.cpp.ir.dependence import facts, has_raw
from operators.rewrites.cpp.ir.paths import at, splice
from operators.rewrites.cpp.ir.syntax import ONE, ZERO, Binary, Call, For, Path, Program, Stmt, Var


def _tileable(program: Program, path: Path, loop: For) -> bool:
    plain = loop.lower == ZERO and loop.step == ONE and not loop.pragmas and loop.type == "int64_t"
    return plain and not constant_trip(program, loop) and not inside_tile(program, path) and not has_raw(loop.body)


class TileLoops:
    """Tiling of two perfectly nested loops for a cache."""

    name = "tile"

    def sites(self, program: Program) -> list[LoopSite]:
        """Return the two inner loops of nests of three or more, where some loop outside reuses the tile."""
        found = []
        for path, loop in loops(program):
            inner = loop.body[0] if len(loop.body) == 1 else None
            nested = any(isinstance(at(program.body, path[:n]), For) for n in range(1, len(path)))
            if not nested or not isinstance(inner, For) or not innermost(inner) or not _tileable(program, path, loop):
                continue
            below = (*path, 0)
            if not _tileable(program, below, inner) or loop.var in {getattr(inner.upper, "name", "")}:
                continue
            if facts(program, path).reorderable and facts(program, below).reorderable:
                found.append(LoopSite(path, f"loops {loop.var}, {inner.var}"))
        return found

    def apply(self, program: Program, site: LoopSite) -> Program:
        """Tile loops outside, loops over one tile inside."""
        outer = at(program.body, site.path)
        if not isinstance(outer, For) or not isinstance(outer.body[0], For):
            raise ValueError("no nest at the site")
        pair = (outer, outer.body[0])
        tunables, names = [], []
        body: tuple[Stmt, ...] = pair[1].body
        for loop in pair:
            size = fresh(program, f"T{loop.var.upper()}")
            tunables.append(NewTunable(size, 128, (32, 64, 128, 256, 512)))
            names.append((fresh(program, f"{loop.var}t"), Var(size)))
        for loop, (tile, extent) in reversed(list(zip(pair, names, strict=True))):
            end = Call("std::min<int64_t>", (Binary("+", Var(tile), extent), loop.upper))
            body = (replace(loop, lower=Var(tile), upper=end, body=body, notes=()),)
        for loop, (tile, extent) in reversed(list(zip(pair, names, strict=True))):
            body = (For(tile, ZERO, loop.upper, extent, body, loop.type, notes=loop.notes),)
        program = replace(program, body=splice(program.body, site.path, body))
        return add_tunables(add_include(program, "algorithm"), tunables)
