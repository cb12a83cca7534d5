"""One program per tile of the output; strides as they are passed."""

import triton
import triton.language as tl

BLOCK_M = 32  # tune: 32 64
BLOCK_N = 32  # tune: 32 64
BLOCK_K = 32  # tune: 16 32 64


@triton.jit
def product(a, b, c, M, N, K, LDA, LDB, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        ks = k + tl.arange(0, BLOCK_K)
        x = tl.load(a + rows[:, None] * LDA + ks[None, :], mask=(rows[:, None] < M) & (ks[None, :] < K), other=0.0)
        y = tl.load(b + ks[:, None] + cols[None, :] * LDB, mask=(ks[:, None] < K) & (cols[None, :] < N), other=0.0)
        acc = tl.dot(x, y, acc)
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(c + rows[:, None] * N + cols[None, :], acc.to(c.dtype.element_ty), mask=mask)


def run(a, b, M, N, K, LDA, LDB, c):
    assert a.stride() == (LDA, 1), a.stride()
    assert b.stride() == (1, LDB), b.stride()
    grid = (triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))
    product[grid](a, b, c, M, N, K, LDA, LDB, BLOCK_M, BLOCK_N, BLOCK_K)
