# title: leaves out what is left of k after whole blocks
# task: gemm_bf16
# class: checking
# tries: right where k is a multiple of the block
# seen: KernelBench, Wafer field guide
# artifact: numerical at smoke
# worker: numerical at smoke
import triton
import triton.language as tl


@triton.jit
def gemm(a, b, c, M, N, K, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K // BLOCK * BLOCK, BLOCK):
        ks = k + tl.arange(0, BLOCK)
        left = tl.load(a + rows[:, None] * K + ks[None, :], mask=(rows[:, None] < M) & (ks[None, :] < K), other=0.0)
        right = tl.load(b + ks[:, None] * N + cols[None, :], mask=(ks[:, None] < K) & (cols[None, :] < N), other=0.0)
        acc = tl.dot(left, right, acc)
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(c + rows[:, None] * N + cols[None, :], acc.to(c.dtype.element_ty), mask=mask)


def run(a, b, M, N, K, c):
    gemm[(triton.cdiv(M, 32), triton.cdiv(N, 32))](a, b, c, M, N, K, 32)
