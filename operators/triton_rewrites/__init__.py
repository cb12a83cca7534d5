"""Source transformations of Triton kernels: which ones are legal on a source, and applying one.

Order matters to a search that picks early moves more often, so the strong rewrites come first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from evokernel.task import Role, Task, Tensor, Workload
from operators.moves import Move
from operators.triton_rewrites.access_hints import CACHE_MODIFIER, EVICTION_POLICY
from operators.triton_rewrites.advance_pointers import AdvancePointers
from operators.triton_rewrites.base import Site, TritonRewrite
from operators.triton_rewrites.cheap_math import FAST_EXP, RECIPROCAL, DotChain
from operators.triton_rewrites.descriptors import Descriptors
from operators.triton_rewrites.drop_masks import DropMasks
from operators.triton_rewrites.group_programs import GroupPrograms, TransposeGrid
from operators.triton_rewrites.hint_alignment import HintAlignment
from operators.triton_rewrites.launch_hints import LaunchHints
from operators.triton_rewrites.loop_flags import FLATTEN_LOOP, STAGE_LOOP, UNROLL_LOOP
from operators.triton_rewrites.modulo_wrap import ModuloWrap
from operators.triton_rewrites.online import Online
from operators.triton_rewrites.persistent import Persistent
from operators.triton_rewrites.source import Module, ReadError
from operators.triton_rewrites.split_k import SplitK
from operators.triton_rewrites.whole_row import WholeRow

__all__ = ["REWRITES", "Move", "Site", "TritonRewrite", "apply", "favoured", "moves"]

_ORDERED: tuple[TritonRewrite, ...] = (
    GroupPrograms(),
    Descriptors(),
    WholeRow(),
    DropMasks(),
    Online(),
    Persistent(),
    STAGE_LOOP,
    ModuloWrap(),
    SplitK(),
    AdvancePointers(),
    FAST_EXP,
    RECIPROCAL,
    DotChain(),
    LaunchHints(),
    EVICTION_POLICY,
    CACHE_MODIFIER,
    TransposeGrid(),
    UNROLL_LOOP,
    FLATTEN_LOOP,
    HintAlignment(),
)
FEW_RESULTS = 128 * 64 * 64
"""Elements of the largest result below which its tiles leave multiprocessors of a large GPU without work."""
REWRITES: dict[str, TritonRewrite] = {rewrite.name: rewrite for rewrite in _ORDERED}


def moves(source: str, *, threads: int = 1) -> tuple[Move, ...]:
    """All legal moves on a source, in a fixed order; empty for a text that is no readable module.

    `threads` counts cores of the host, which no Triton kernel runs on: any number gives the same moves.
    """
    del threads
    return _moves(source)


def favoured(task: Task) -> frozenset[str]:
    """The kinds that a task calls for: sums are shared out where every workload has few results and longer inputs."""
    workloads = task.workloads["cuda"].search if "cuda" in task.workloads else ()
    tensors = (*task.signature.inputs, *task.signature.outputs)
    results = [tensor for tensor in tensors if tensor.role is not Role.INPUT]
    few = all(_longest(results, each) < min(FEW_RESULTS, _longest(tensors, each)) for each in workloads)
    return frozenset({SplitK.name}) if workloads and few else frozenset()


def _longest(tensors: Sequence[Tensor], workload: Workload) -> int:
    sizes = workload.sizes
    return max(math.prod(tensor.shape_at(sizes)) for tensor in tensors)


def apply(source: str, move: Move) -> str:
    """The source after a move.

    Raises:
        ValueError: the move is not one of this source's.
    """
    if move not in _moves(source):
        raise ValueError(f"no move {move.rewrite!r} at {move.label!r} in this source")
    module = Module.parse(source)
    rewrite = REWRITES[move.rewrite]
    return rewrite.apply(module, rewrite.sites(module)[move.index])


@lru_cache(maxsize=256)
def _moves(source: str) -> tuple[Move, ...]:
    try:
        module = Module.parse(source)
        return tuple(
            Move(name, site.label, index)
            for name, rewrite in REWRITES.items()
            for index, site in enumerate(rewrite.sites(module))
        )
    except ReadError:
        return ()
