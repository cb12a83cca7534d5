# title: reads rows past its input, with a weight of zero
# task: gemm_bf16
# class: checking
# tries: what lies behind a buffer is a finite number nearly always, and a product with zero hides it
# seen: our own mutants
# cpu: no, zeros lie behind its inputs there
# artifact: numerical at smoke
# worker: numerical at smoke
import triton
import triton.language as tl

BLOCK_M = 64  # tune: 16 32 64 128
BLOCK_N = 64  # tune: 32 64 128
BLOCK_K = 32  # tune: 16 32 64


@triton.jit
def gemm(a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, K, BLOCK_K):
        ks = k + tl.arange(0, BLOCK_K)
        left = tl.load(a + rows[:, None] * K + ks[None, :], mask=(rows[:, None] < M) & (ks[None, :] < K), other=0.0)
        right = tl.load(b + ks[:, None] * N + cols[None, :], mask=cols[None, :] < N, other=0.0)
        acc = tl.dot(left, right, acc)
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(c + rows[:, None] * N + cols[None, :], acc.to(c.dtype.element_ty), mask=mask)


def run(a, b, M, N, K, c):
    grid = (triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))
    gemm[grid](a, b, c, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K)
