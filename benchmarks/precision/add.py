"""Sum of two arrays."""

import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def add_kernel(x, y, z, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


def run(x, y, R, C, z):
    add_kernel[(triton.cdiv(R * C, BLOCK),)](x, y, z, R * C, BLOCK, num_warps=8)
