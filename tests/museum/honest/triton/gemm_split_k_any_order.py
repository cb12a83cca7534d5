# title: eight shares of k, added to zeros atomically, in whatever order they come
# task: gemm
# bits: differ from run to run
import triton
import triton.language as tl

BLOCK_M = 64  # tune: 16 32 64 128
BLOCK_N = 64  # tune: 32 64 128
BLOCK_K = 32  # tune: 16 32 64
SHARES = 8  # tune: 4 8 16


@triton.jit
def gemm(a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SHARES: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    share = tl.program_id(2)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(share * BLOCK_K, K, SHARES * BLOCK_K):
        ks = k + tl.arange(0, BLOCK_K)
        left = tl.load(a + rows[:, None] * K + ks[None, :], mask=(rows[:, None] < M) & (ks[None, :] < K), other=0.0)
        right = tl.load(b + ks[:, None] * N + cols[None, :], mask=(ks[:, None] < K) & (cols[None, :] < N), other=0.0)
        acc = tl.dot(left, right, acc, input_precision="ieee")
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    tl.atomic_add(c + rows[:, None] * N + cols[None, :], acc, mask=mask, sem="relaxed")


def run(a, b, M, N, K, c):
    c.zero_()
    grid = (triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N), SHARES)
    gemm[grid](a, b, c, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K, SHARES)
