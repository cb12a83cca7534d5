"""Source transformations of C++ kernels: which ones are legal on a source, and applying one.

Order matters to a search that picks early moves more often, so the strong rewrites come first.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from evokernel.task import Task
from operators.rewrites.cpp.base import CppRewrite, LoopSite
from operators.rewrites.cpp.hoist import Hoist
from operators.rewrites.cpp.interchange import Interchange
from operators.rewrites.cpp.ir.reader import UnreadableCpp, read
from operators.rewrites.cpp.ir.row_pointers import resolve_views
from operators.rewrites.cpp.ir.syntax import Program
from operators.rewrites.cpp.ir.writer import write
from operators.rewrites.cpp.pack import Pack
from operators.rewrites.cpp.parallel import Parallel
from operators.rewrites.cpp.prefetch import Prefetch
from operators.rewrites.cpp.promote import Promote
from operators.rewrites.cpp.register_tile import RegisterTile
from operators.rewrites.cpp.restrict import Restrict
from operators.rewrites.cpp.split_accumulator import SplitAccumulator
from operators.rewrites.cpp.tile import TileLoops
from operators.rewrites.cpp.unroll import Unroll
from operators.rewrites.cpp.vector_math import VectorMath
from operators.rewrites.cpp.vectorize import Vectorize
from operators.rewrites.library import RewriteMove

__all__ = ["REWRITES", "CppRewrite", "LoopSite", "RewriteMove", "apply", "favoured", "moves"]

_ORDERED: tuple[CppRewrite, ...] = (
    RegisterTile(),
    Vectorize(),
    Pack(),
    SplitAccumulator(),
    Interchange(),
    VectorMath(),
    Hoist(),
    Restrict(),
    Promote(),
    TileLoops(),
    Unroll(),
    Prefetch(),
    Parallel(),
)
REWRITES: dict[str, CppRewrite] = {rewrite.name: rewrite for rewrite in _ORDERED}


def moves(source: str, *, threads: int = 1) -> tuple[RewriteMove, ...]:
    """All legal moves on a source, in a fixed order; empty for a text that is no readable kernel.

    `parallel` is offered for `threads` > 1 only.
    """
    return tuple(move for move in _moves(source) if threads > 1 or move.rewrite != "parallel")


def favoured(task: Task) -> frozenset[str]:
    """The kinds that the sizes of a task call for: none more than the order says."""
    del task
    return frozenset()


def apply(source: str, move: RewriteMove) -> str:
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
def _moves(source: str) -> tuple[RewriteMove, ...]:
    try:
        program = _program(source)
        return tuple(
            RewriteMove(name, site.label, index)
            for name, rewrite in REWRITES.items()
            for index, site in enumerate(rewrite.sites(program))
        )
    except (UnreadableCpp, RecursionError, UnicodeError):
        return ()


def _program(source: str) -> Program:
    """The program in the form that rewrites work on: row pointers spelled out."""
    program = read(source)
    arrays = frozenset(p.name for p in program.params if p.pointer)
    return replace(program, body=resolve_views(program.body, arrays))
