"""Running sums of each row, plainly: one program per row, block by block, the sum so far carried along."""

import triton
import triton.language as tl

BLOCK = 1024  # tune: 256 512 1024 2048 4096 8192
NUM_WARPS = 4  # tune: 1 2 4 8 16
NUM_STAGES = 2  # tune: 1 2 3 4


@triton.jit
def cumsum_kernel(x, y, C, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    carried = 0.0
    for start in range(0, C, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * C + cols, mask=cols < C, other=0.0)
        tl.store(y + row * C + cols, tl.cumsum(values, axis=0) + carried, mask=cols < C)
        carried += tl.sum(values, axis=0)


def run(x, R, C, y):
    cumsum_kernel[(R,)](x, y, C, BLOCK, num_warps=NUM_WARPS, num_stages=NUM_STAGES)
