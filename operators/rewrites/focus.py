"""The class of transformations that each rewrite belongs to."""

from collections.abc import Collection, Mapping

from evokernel.records.focus import Focus

FOCUS_OF: Mapping[str, Focus] = {
    name: focus
    for focus, names in {
        Focus.TILING: "register_tile tile whole_row split_k vector_tile",
        Focus.MEMORY: (
            "pack shrink restrict promote prefetch vector_load register_row prefetch_tile row_alignment descriptors "
            "drop_masks modulo_wrap eviction_policy cache_modifier hint_alignment"
        ),
        Focus.LOOPS: (
            "vectorize split_accumulator interchange hoist unroll stage_loop advance_pointers unroll_loop flatten_loop"
        ),
        Focus.FUSION: "fuse online",
        Focus.ARITHMETIC: "vector_math fast_exp reciprocal dot_chain",
        Focus.LAUNCH: "parallel group_programs persistent launch_hints transpose_grid",
    }.items()
    for name in names.split()
}


def in_focus(rewrite: str, focus: Collection[Focus]) -> bool:
    """Say whether a rewrite may be applied where only some classes may; without a focus every one may."""
    return not focus or FOCUS_OF.get(rewrite) in focus
