# title: no tl.dot: products of columns and rows, one k after the other
# task: gemm
import triton
import triton.language as tl

BLOCK_M = 32  # tune: 16 32 64
BLOCK_N = 64  # tune: 32 64 128


@triton.jit
def gemm(a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(K):
        left = tl.load(a + rows * K + k, mask=rows < M, other=0.0)
        right = tl.load(b + k * N + cols, mask=cols < N, other=0.0)
        acc += left[:, None] * right[None, :]
    tl.store(c + rows[:, None] * N + cols[None, :], acc, mask=(rows[:, None] < M) & (cols[None, :] < N))


def run(a, b, M, N, K, c):
    gemm[(triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))](a, b, c, M, N, K, BLOCK_M, BLOCK_N)
