"""Source transformations of Triton kernels."""

import math
from collections.abc import Sequence

from evokernel.task import Role, Task, Tensor, Workload
from operators.rewrites.library import RewriteLibrary
from operators.rewrites.triton.access_hints import CACHE_MODIFIER, EVICTION_POLICY
from operators.rewrites.triton.advance_pointers import AdvancePointers
from operators.rewrites.triton.cheap_math import FAST_EXP, RECIPROCAL, DotChain
from operators.rewrites.triton.descriptors import Descriptors
from operators.rewrites.triton.drop_masks import DropMasks
from operators.rewrites.triton.group_programs import GroupPrograms, TransposeGrid
from operators.rewrites.triton.hint_alignment import HintAlignment
from operators.rewrites.triton.launch_hints import LaunchHints
from operators.rewrites.triton.loop_flags import FLATTEN_LOOP, STAGE_LOOP, UNROLL_LOOP
from operators.rewrites.triton.modulo_wrap import ModuloWrap
from operators.rewrites.triton.online_softmax import Online
from operators.rewrites.triton.persistent import Persistent
from operators.rewrites.triton.row_alignment import RowAlignment
from operators.rewrites.triton.source import TritonModule, UnreadableTriton
from operators.rewrites.triton.split_k import SplitK
from operators.rewrites.triton.whole_row import WholeRow

FEW_RESULTS = 128 * 64 * 64
"""Elements of the largest result below which its tiles do not occupy all multiprocessors of a large GPU."""


def _favoured(task: Task) -> frozenset[str]:
    """Return the kinds that suit a task.

    `row_alignment` always: much faster on other sizes than the round ones of a search, which alone would not keep it.
    `split_k` where every workload has few results and longer inputs.
    """
    workloads = task.workloads["cuda"].search if "cuda" in task.workloads else ()
    tensors = (*task.signature.inputs, *task.signature.outputs)
    results = [tensor for tensor in tensors if tensor.role is not Role.INPUT]
    few = all(_longest(results, each) < min(FEW_RESULTS, _longest(tensors, each)) for each in workloads)
    return frozenset([RowAlignment.name, *[SplitK.name] * few]) if workloads else frozenset()


def _longest(tensors: Sequence[Tensor], workload: Workload) -> int:
    sizes = workload.sizes
    return max(math.prod(tensor.shape_at(sizes)) for tensor in tensors)


TRITON_REWRITES = RewriteLibrary(
    (
        GroupPrograms(),
        RowAlignment(),
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
    ),
    read=TritonModule.parse,
    write=str,
    unreadable=(UnreadableTriton,),
    favoured=_favoured,
)
