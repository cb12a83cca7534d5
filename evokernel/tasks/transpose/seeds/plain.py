"""Transposition, plainly: one program per tile, read along rows and written along columns."""

import triton
import triton.language as tl

BLOCK_R = 32  # tune: 16 32 64 128
BLOCK_C = 32  # tune: 16 32 64 128
NUM_WARPS = 4  # tune: 1 2 4 8
NUM_STAGES = 2  # tune: 1 2 3 4
# tune-where: BLOCK_R * BLOCK_C <= NUM_WARPS * 32 * 64


@triton.jit
def transpose_kernel(x, y, R, C, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    rows = tl.program_id(1) * BLOCK_R + tl.arange(0, BLOCK_R)
    cols = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    mask = (rows[:, None] < R) & (cols[None, :] < C)
    tile = tl.load(x + rows[:, None].to(tl.int64) * C + cols[None, :], mask=mask, other=0.0)
    back = (cols[:, None] < C) & (rows[None, :] < R)
    tl.store(y + cols[:, None].to(tl.int64) * R + rows[None, :], tl.trans(tile), mask=back)


def run(x, R, C, y):
    grid = (triton.cdiv(C, BLOCK_C), triton.cdiv(R, BLOCK_R))
    transpose_kernel[grid](x, y, R, C, BLOCK_R, BLOCK_C, num_warps=NUM_WARPS, num_stages=NUM_STAGES)
