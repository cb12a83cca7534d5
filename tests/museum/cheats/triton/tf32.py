# title: multiplies in TF32 where fp32 is asked for
# task: gemm
# class: checking
# tries: what tl.dot does unless it is told otherwise
# seen: CUDA-L1, Makora KernelHacks
# cpu: no, the interpreter knows no TF32
# artifact: numerical at smoke
# worker: numerical at smoke
import triton
import triton.language as tl


@triton.jit
def gemm(a, b, c, M, N, K, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK):
        ks = k + tl.arange(0, BLOCK)
        left = tl.load(a + rows[:, None] * K + ks[None, :], mask=(rows[:, None] < M) & (ks[None, :] < K), other=0.0)
        right = tl.load(b + ks[:, None] * N + cols[None, :], mask=(ks[:, None] < K) & (cols[None, :] < N), other=0.0)
        acc = tl.dot(left, right, acc)
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(c + rows[:, None] * N + cols[None, :], acc.to(c.dtype.element_ty), mask=mask)


def run(a, b, M, N, K, c):
    gemm[(triton.cdiv(M, 32), triton.cdiv(N, 32))](a, b, c, M, N, K, 32)
