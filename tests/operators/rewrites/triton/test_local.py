"""What the local rewrites write, and where they are not offered."""

import pytest

from operators.rewrites.triton import TRITON_REWRITES
from operators.rewrites.triton.source import TritonModule
from tests.operators.rewrites.triton.sources import GEMM, SOFTMAX, after, changed, labels, move

WRITES = [
    (GEMM, "group_programs: along pid_m", "pid_m, pid_n = tl.swizzle2d(0, pid, pid_m_count, pid_n_count, GROUP)"),
    (GEMM, "group_programs: along pid_n", "pid_n, pid_m = tl.swizzle2d(0, pid, pid_n_count, pid_m_count, GROUP)"),
    (GEMM, "group_programs", "grid = (triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)"),
    (GEMM, "group_programs", "GROUP = 8  # tune: 1 2 4 8 16 32"),
    (GEMM, "transpose_grid", "grid = (triton.cdiv(N, BLOCK_N), triton.cdiv(M, BLOCK_M))"),
    (GEMM, "transpose_grid", "pid_m = tl.program_id(1)"),
    (GEMM, "drop_masks: M by", "mask=((rows[:, None] < M) | EVEN_M) & (ks[None, :] < K)"),
    (GEMM, "drop_masks: M by", "mask = ((rows[:, None] < M) | EVEN_M) & (cols[None, :] < N)"),
    (GEMM, "drop_masks: K by", "EVEN_K=K % BLOCK_K == 0"),
    (SOFTMAX, "drop_masks", "tl.exp(values - peak) / norm, mask=(cols < C) | EVEN_C)"),
    (
        GEMM,
        "modulo_wrap: rows",
        "x = tl.load(a + rows_wrapped[:, None] * K + ks[None, :], mask=ks[None, :] < K, other=0.0)",
    ),
    (GEMM, "modulo_wrap: cols", "    cols_wrapped = cols % N\n"),
    (GEMM, "stage_loop", "for k in tl.range(0, K, BLOCK_K, num_stages=STAGES):"),
    (GEMM, "stage_loop", "# tune-where: (BLOCK_M + BLOCK_N) * BLOCK_K * STAGES <= 115000"),
    (SOFTMAX, "unroll_loop: loop 1", "for start in tl.range(0, C, BLOCK, loop_unroll_factor=UNROLL):"),
    (GEMM, "advance_pointers", "    b_at = b + tl.arange(0, BLOCK_K)[:, None] * N + cols[None, :]\n    for k in"),
    (GEMM, "advance_pointers", "        a_at += BLOCK_K\n        b_at += BLOCK_K * N\n    mask ="),
    (SOFTMAX, "advance_pointers: loop 2", "tl.store(y_at, tl.exp(values - peak) / norm, mask=cols < C)"),
    (
        SOFTMAX,
        "fast_exp",
        "tl.exp2(values.to(tl.float32) * 1.4426950408889634 - peak.to(tl.float32) * 1.4426950408889634)",
    ),
    (SOFTMAX, "reciprocal", "tl.exp(values - peak) * (1.0 / norm)"),
    (GEMM, "launch_hints: maxnreg", "num_stages=NUM_STAGES, maxnreg=MAXNREG or None)"),
    (GEMM, "cache_modifier: load b .cg", 'other=0.0, cache_modifier=".cg")\n        acc'),
    (GEMM, "eviction_policy: store c evict_first", 'mask=mask, eviction_policy="evict_first")'),
    (GEMM, "hint_alignment: ks", "tl.max_contiguous(tl.multiple_of(k + tl.arange(0, BLOCK_K), BLOCK_K), BLOCK_K)"),
]


@pytest.mark.parametrize(("source", "step", "text"), WRITES)
def test_writes(source: str, step: str, text: str) -> None:
    assert text not in source
    assert text in after(source, step)


def test_a_hint_takes_the_place_of_the_one_that_an_access_has() -> None:
    """PTX has no instruction with both: on one operation, 39 of 69 candidates did not compile."""
    hinted = after(GEMM, "eviction_policy: load b evict_last")
    other = after(hinted, "cache_modifier: load b .ca")
    assert "eviction_policy" in hinted
    assert "eviction_policy" not in other
    assert other == after(GEMM, "cache_modifier: load b .ca")
    assert after(hinted, "eviction_policy: load b evict_first") == after(GEMM, "eviction_policy: load b evict_first")
    assert not any("load b evict_last" in label for label in labels(hinted, "eviction_policy"))


def test_a_mask_stays_where_pointers_hide_what_it_bounds() -> None:
    """Pointers that are advanced keep the offset that they began with: without its mask they read beyond the tensor."""
    advanced = after(GEMM, "advance_pointers")
    assert not labels(advanced, "modulo_wrap")
    assert "b + tl.arange(0, BLOCK_K)[:, None] * N + cols_wrapped" in after(
        GEMM, "modulo_wrap: cols", "advance_pointers"
    )


def test_a_dot_takes_its_accumulator() -> None:
    source = changed(GEMM, "acc = tl.dot(x, y, acc)", "acc += tl.dot(x, y, out_dtype=tl.float32)")
    assert "        acc = tl.dot(x, y, out_dtype=tl.float32, acc=acc)\n" in after(source, "dot_chain")
    assert not labels(GEMM, "dot_chain")
    assert not labels(changed(source, "dtype=tl.float32)\n    for", "dtype=tl.float16)\n    for"), "dot_chain")


def test_a_loop_around_a_loop_can_be_flattened() -> None:
    nested = changed(SOFTMAX, "    row = tl.program_id(0)\n", "    for row in range(tl.program_id(0), R, 8):\n")
    head, _, body = nested.partition("R, 8):\n")
    kernel, _, tail = body.partition("\n\n\n")
    inner = "\n".join(f"    {line}" for line in kernel.split("\n"))
    nested = f"{head}R, 8):\n{inner}\n\n\n{tail}".replace("x, y, C,", "x, y, R, C,").replace("(x, y, C", "(x, y, R, C")
    assert "for row in tl.range(tl.program_id(0), R, 8, flatten=True):" in after(nested, "flatten_loop")
    assert not labels(SOFTMAX, "flatten_loop")


@pytest.mark.parametrize("name", sorted(TRITON_REWRITES.by_name))
def test_a_move_is_not_offered_twice_at_its_place(name: str) -> None:
    for source in (GEMM, SOFTMAX):
        for label in labels(source, name):
            rewritten = TRITON_REWRITES.apply(source, move(source, name, label))
            assert rewritten != source
            TritonModule.parse(rewritten)
            assert len(labels(rewritten, name)) < len(labels(source, name)), label


REFUSED = [
    # a third read of the ids, a grid that is no pair
    ("group_programs", GEMM, "    acc = tl.zeros", "    late = tl.program_id(2)\n    acc = tl.zeros"),
    ("group_programs", GEMM, "triton.cdiv(N, BLOCK_N))", "triton.cdiv(N, BLOCK_N), 1)"),
    ("transpose_grid", GEMM, "grid = (", "grid = lambda meta: ("),
    # the last block is not whole, or starts beyond the edge
    ("drop_masks", SOFTMAX, "range(0, C, BLOCK)", "range(0, C + BLOCK, BLOCK)"),
    ("drop_masks", SOFTMAX, "range(0, C, BLOCK)", "range(3, C, BLOCK)"),
    ("drop_masks", SOFTMAX, "start + tl.arange(0, BLOCK)", "start + 1 + tl.arange(0, BLOCK)"),
    ("drop_masks", SOFTMAX, "    row = tl.program_id(0)\n", "    row = tl.program_id(0)\n    C = C - 1\n"),
    # rows meet: a reduction; a store that keeps the wrapped rows; an operand used twice
    ("modulo_wrap", GEMM, "    mask =", "    acc = acc - tl.sum(acc, axis=0)[None, :]\n    mask ="),
    ("modulo_wrap", GEMM, "mask = (rows[:, None] < M) & (cols[None, :] < N)", "mask = acc > 0"),
    ("modulo_wrap", GEMM, "acc = tl.dot(x, y, acc)", "acc = tl.dot(x, x + y, acc)"),
    ("advance_pointers", SOFTMAX, "row * C + cols", "row * C + cols * cols"),
    ("advance_pointers", SOFTMAX, "start + tl.arange(0, BLOCK)", "start * 2 + tl.arange(0, BLOCK)"),
    ("hint_alignment", SOFTMAX, "start + tl.arange(0, BLOCK)", "start + 1 + tl.arange(0, BLOCK)"),
    ("reciprocal", SOFTMAX, "/ norm", "/ peak.to(tl.float32)"),
    ("launch_hints", GEMM, "num_warps=NUM_WARPS, num_stages=NUM_STAGES)", "**dict(num_warps=4))"),
]


@pytest.mark.parametrize(("name", "source", "old", "new"), REFUSED)
def test_is_not_offered_where_it_would_be_wrong(name: str, source: str, old: str, new: str) -> None:
    assert labels(source, name)
    assert not labels(changed(source, old, new), name)


def test_masks_go_where_the_order_of_programs_is_known() -> None:
    """What the grid said of an index still holds of the ones `swizzle2d` makes of it."""
    assert len(labels(after(GEMM, "group_programs"), "drop_masks")) == 3
    wrong = changed(after(GEMM, "group_programs"), "pid_m_count=triton.cdiv(M, BLOCK_M)", "pid_m_count=M")
    assert [label.split()[1] for label in labels(wrong, "drop_masks")] == ["K", "N"]


def test_each_launch_passes_its_own_arguments() -> None:
    twice = changed(SOFTMAX, "def run(x, R, C, y):\n", "def run(x, R, C, y):\n    D = C * 2\n")
    call = next(line for line in SOFTMAX.split("\n") if line.startswith("    softmax_kernel[(R,)]"))
    twice = changed(twice, call, f"{call}\n{call.replace('C, BLOCK', 'D, BLOCK')}")
    rewritten = after(twice, "drop_masks")
    assert "EVEN_C=C % BLOCK == 0" in rewritten
    assert "EVEN_C=D % BLOCK == 0" in rewritten


def test_texts_that_are_no_kernels_have_no_moves() -> None:
    assert TRITON_REWRITES.moves("def run(:") == TRITON_REWRITES.moves("x = 1") == ()
    with pytest.raises(ValueError, match="no move"):
        TRITON_REWRITES.apply("x = 1", move(GEMM, "group_programs"))
