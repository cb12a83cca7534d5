"""Matrix product, bias and GELU, plainly: one program per tile of the output, operands read block by block along K."""

import triton
import triton.language as tl

BLOCK_M = 64  # tune: 32 64 128 256
BLOCK_N = 64  # tune: 32 64 128 256
BLOCK_K = 32  # tune: 16 32 64 128
NUM_WARPS = 4  # tune: 2 4 8 16
NUM_STAGES = 2  # tune: 1 2 3 4 5
# tune-where: (BLOCK_M + BLOCK_N) * BLOCK_K * NUM_STAGES <= 115000
# tune-where: BLOCK_M * BLOCK_N <= NUM_WARPS * 32 * 160


@triton.jit
def gemm_kernel(a, b, bias, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        ks = k + tl.arange(0, BLOCK_K)
        x = tl.load(a + rows[:, None] * K + ks[None, :], mask=(rows[:, None] < M) & (ks[None, :] < K), other=0.0)
        y = tl.load(b + ks[:, None] * N + cols[None, :], mask=(ks[:, None] < K) & (cols[None, :] < N), other=0.0)
        acc = tl.dot(x, y, acc)
    shift = tl.load(bias + cols, mask=cols < N, other=0.0).to(tl.float32)
    acc += shift[None, :]
    acc = acc * 0.5 * (1.0 + tl.erf(acc * 0.7071067811865476))
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(c + rows[:, None] * N + cols[None, :], acc.to(c.dtype.element_ty), mask=mask)


def run(a, b, bias, M, N, K, c):
    grid = (triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))
    gemm_kernel[grid](a, b, bias, c, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K, num_warps=NUM_WARPS, num_stages=NUM_STAGES)
