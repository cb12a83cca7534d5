"""Causal attention, plainly: one program per block of queries, keys and values read block by block.

The scores are never all there: the largest one so far is kept for each query, and what was summed before is scaled
down where a larger one comes.
"""

import triton
import triton.language as tl

BLOCK_M = 64  # tune: 16 32 64 128
BLOCK_N = 64  # tune: 16 32 64 128
NUM_WARPS = 4  # tune: 2 4 8
NUM_STAGES = 2  # tune: 1 2 3 4
# tune-where: BLOCK_M * BLOCK_N <= NUM_WARPS * 32 * 128
# tune-where: BLOCK_M + 2 * BLOCK_N * NUM_STAGES <= 800


@triton.jit
def attention_kernel(q, k, v, o, S, D, scale, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr):
    base = tl.program_id(1).to(tl.int64) * S * D
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    parts = tl.arange(0, BLOCK_D)
    inside = (rows[:, None] < S) & (parts[None, :] < D)
    asked = tl.load(q + base + rows[:, None] * D + parts[None, :], mask=inside, other=0.0)
    peak = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, BLOCK_D), dtype=tl.float32)
    end = tl.minimum(S, (tl.program_id(0) + 1) * BLOCK_M)
    for start in range(0, end, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        known = (cols[None, :] < S) & (parts[:, None] < D)
        keys = tl.load(k + base + cols[None, :] * D + parts[:, None], mask=known, other=0.0)
        scores = tl.dot(asked, keys, input_precision="ieee") * scale
        scores = tl.where(cols[None, :] <= rows[:, None], scores, float("-inf"))
        higher = tl.maximum(peak, tl.max(scores, axis=1))
        weights = tl.exp(scores - higher[:, None])
        shrink = tl.exp(peak - higher)
        peak = higher
        total = total * shrink + tl.sum(weights, axis=1)
        held = (cols[:, None] < S) & (parts[None, :] < D)
        values = tl.load(v + base + cols[:, None] * D + parts[None, :], mask=held, other=0.0)
        acc = tl.dot(weights.to(values.dtype), values, acc * shrink[:, None], input_precision="ieee")
    result = acc / total[:, None]
    tl.store(o + base + rows[:, None] * D + parts[None, :], result.to(o.dtype.element_ty), mask=inside)


def run(q, k, v, B, H, S, D, o):
    grid = (triton.cdiv(S, BLOCK_M), B * H)
    block_d = max(16, triton.next_power_of_2(D))
    attention_kernel[grid](
        q, k, v, o, S, D, D**-0.5, BLOCK_M, BLOCK_N, block_d, num_warps=NUM_WARPS, num_stages=NUM_STAGES
    )
