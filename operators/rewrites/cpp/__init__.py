"""Source transformations of C++ kernels."""

from dataclasses import replace

from operators.rewrites.cpp.fuse import Fuse
from operators.rewrites.cpp.hoist import Hoist
from operators.rewrites.cpp.interchange import Interchange
from operators.rewrites.cpp.ir.reader import UnreadableCpp, read
from operators.rewrites.cpp.ir.row_pointers import resolve_views
from operators.rewrites.cpp.ir.syntax import Program
from operators.rewrites.cpp.ir.writer import write
from operators.rewrites.cpp.loop_flags import Parallel, Unroll
from operators.rewrites.cpp.pack import Pack
from operators.rewrites.cpp.prefetch import Prefetch
from operators.rewrites.cpp.promote import Promote
from operators.rewrites.cpp.register_tile import RegisterTile
from operators.rewrites.cpp.restrict import Restrict
from operators.rewrites.cpp.shrink import Shrink
from operators.rewrites.cpp.split_accumulator import SplitAccumulator
from operators.rewrites.cpp.tile import TileLoops
from operators.rewrites.cpp.vector_math import VectorMath
from operators.rewrites.cpp.vectorize import Vectorize
from operators.rewrites.library import RewriteLibrary


def _read(source: str) -> Program:
    """Return the program in the form that rewrites work on: row pointers spelled out."""
    program = read(source)
    arrays = frozenset(p.name for p in program.params if p.pointer)
    return replace(program, body=resolve_views(program.body, arrays))


CPP_REWRITES = RewriteLibrary(
    (
        RegisterTile(),
        Vectorize(),
        Pack(),
        SplitAccumulator(),
        Fuse(),
        Shrink(),
        Interchange(),
        VectorMath(),
        Hoist(),
        Restrict(),
        Promote(),
        TileLoops(),
        Unroll(),
        Prefetch(),
        Parallel(),
    ),
    read=_read,
    write=write,
    unreadable=(UnreadableCpp, RecursionError, UnicodeError),
    need_threads=("parallel",),
)
