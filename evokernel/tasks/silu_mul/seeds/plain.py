"""SiLU of one matrix times another, plainly: one program per block of elements."""

import triton
import triton.language as tl

BLOCK = 1024  # tune: 256 512 1024 2048 4096 8192
NUM_WARPS = 4  # tune: 1 2 4 8 16
NUM_STAGES = 2  # tune: 1 2 3 4


@triton.jit
def silu_mul_kernel(gate, up, y, size, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(gate + at, mask=at < size, other=0.0).to(tl.float32)
    right = tl.load(up + at, mask=at < size, other=0.0).to(tl.float32)
    result = left / (1.0 + tl.exp(-left)) * right
    tl.store(y + at, result.to(y.dtype.element_ty), mask=at < size)


def run(gate, up, R, C, y):
    grid = (triton.cdiv(R * C, BLOCK),)
    silu_mul_kernel[grid](gate, up, y, R * C, BLOCK, num_warps=NUM_WARPS, num_stages=NUM_STAGES)
