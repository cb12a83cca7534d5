"""Softmax of each row, plainly: three passes over a row, block by block; one program per row."""

import triton
import triton.language as tl

BLOCK = 1024  # tune: 256 512 1024 2048 4096 8192
NUM_WARPS = 4  # tune: 1 2 4 8 16 32
NUM_STAGES = 2  # tune: 1 2 3 4


@triton.jit
def softmax_kernel(x, y, C, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    top = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
    for start in range(0, C, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * C + cols, mask=cols < C, other=float("-inf"))
        top = tl.maximum(top, values)
    peak = tl.max(top, axis=0)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, C, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * C + cols, mask=cols < C, other=float("-inf"))
        total += tl.exp(values - peak)
    norm = tl.sum(total, axis=0)
    for start in range(0, C, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * C + cols, mask=cols < C, other=float("-inf"))
        tl.store(y + row * C + cols, tl.exp(values - peak) / norm, mask=cols < C)


def run(x, R, C, y):
    softmax_kernel[(R,)](x, y, C, BLOCK, num_warps=NUM_WARPS, num_stages=NUM_STAGES)
