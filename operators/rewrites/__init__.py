"""Source transformations of C++ kernels: which ones are legal on a source, and applying one.

Order matters to a search that picks early moves more often, so the strong rewrites come first.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from evokernel.task import Task
from operators.loops.ir import Program
from operators.loops.reader import ReadError, read
from operators.loops.views import resolve_views
from operators.loops.writer import write
from operators.moves import Move
from operators.rewrites.base import Rewrite, Site
from operators.rewrites.hoist import Hoist
from operators.rewrites.interchange import Interchange
from operators.rewrites.pack import Pack
from operators.rewrites.parallel import Parallel
from operators.rewrites.prefetch import Prefetch
from operators.rewrites.promote import Promote
from operators.rewrites.register_tile import RegisterTile
from operators.rewrites.restrict import Restrict
from operators.rewrites.split_accumulator import SplitAccumulator
from operators.rewrites.tile import Tile
from operators.rewrites.unroll import Unroll
from operators.rewrites.vector_math import VectorMath
from operators.rewrites.vectorize import Vectorize

__all__ = ["REWRITES", "Move", "Rewrite", "Site", "apply", "favoured", "moves"]

_ORDERED: tuple[Rewrite, ...] = (
    RegisterTile(),
    Vectorize(),
    Pack(),
    SplitAccumulator(),
    Interchange(),
    VectorMath(),
    Hoist(),
    Restrict(),
    Promote(),
    Tile(),
    Unroll(),
    Prefetch(),
    Parallel(),
)
REWRITES: dict[str, Rewrite] = {rewrite.name: rewrite for rewrite in _ORDERED}


def moves(source: str, *, threads: int = 1) -> tuple[Move, ...]:
    """All legal moves on a source, in a fixed order; empty for a text that is no readable kernel.

    `parallel` is offered for `threads` > 1 only.
    """
    return tuple(move for move in _moves(source) if threads > 1 or move.rewrite != "parallel")


def favoured(task: Task) -> frozenset[str]:
    """The kinds that the sizes of a task call for: none more than the order says."""
    del task
    return frozenset()


def apply(source: str, move: Move) -> str:
    """The source after a move.

    Raises:
        ValueError: the move is not one of this source's.
    """
    if move not in _moves(source):
        raise ValueError(f"no move {move.rewrite!r} at {move.label!r} in this source")
    program = _program(source)
    rewrite = REWRITES[move.rewrite]
    return write(rewrite.apply(program, rewrite.sites(program)[move.index]))


@lru_cache(maxsize=256)
def _moves(source: str) -> tuple[Move, ...]:
    try:
        program = _program(source)
        return tuple(
            Move(name, site.label, index)
            for name, rewrite in REWRITES.items()
            for index, site in enumerate(rewrite.sites(program))
        )
    except (ReadError, RecursionError, UnicodeError):
        return ()


def _program(source: str) -> Program:
    """The program in the form that rewrites work on: row pointers spelled out."""
    program = read(source)
    arrays = frozenset(p.name for p in program.params if p.pointer)
    return replace(program, body=resolve_views(program.body, arrays))
