"""Layer normalisation of each row, plainly: one program per row, three passes over it."""

import triton
import triton.language as tl

BLOCK = 1024  # tune: 256 512 1024 2048 4096 8192
NUM_WARPS = 4  # tune: 1 2 4 8 16
NUM_STAGES = 2  # tune: 1 2 3 4


@triton.jit
def layernorm_kernel(x, w, b, y, C, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, C, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        total += tl.load(x + row * C + cols, mask=cols < C, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / C
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, C, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * C + cols, mask=cols < C, other=0.0).to(tl.float32)
        apart = tl.where(cols < C, values - mean, 0.0)
        squares += apart * apart
    scale = 1.0 / tl.sqrt(tl.sum(squares, axis=0) / C + eps)
    for start in range(0, C, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * C + cols, mask=cols < C, other=0.0).to(tl.float32)
        weights = tl.load(w + cols, mask=cols < C, other=0.0).to(tl.float32)
        shifts = tl.load(b + cols, mask=cols < C, other=0.0).to(tl.float32)
        result = (values - mean) * scale * weights + shifts
        tl.store(y + row * C + cols, result.to(y.dtype.element_ty), mask=cols < C)


def run(x, w, b, R, C, eps, y):
    layernorm_kernel[(R,)](x, w, b, y, C, eps, BLOCK, num_warps=NUM_WARPS, num_stages=NUM_STAGES)
