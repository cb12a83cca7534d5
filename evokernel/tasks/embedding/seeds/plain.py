"""A row of a table for each token, plainly: one program per token, block by block."""

import triton
import triton.language as tl

BLOCK = 1024  # tune: 128 256 512 1024 2048 4096 8192
NUM_WARPS = 4  # tune: 1 2 4 8 16
NUM_STAGES = 2  # tune: 1 2 3 4


@triton.jit
def embedding_kernel(table, tokens, y, C, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    token = tl.load(tokens + row)
    for start in range(0, C, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        values = tl.load(table + token * C + cols, mask=cols < C, other=0.0)
        tl.store(y + row * C + cols, values, mask=cols < C)


def run(table, tokens, T, V, C, y):
    embedding_kernel[(T,)](table, tokens, y, C, BLOCK, num_warps=NUM_WARPS, num_stages=NUM_STAGES)
