# title: tiles by tensor maps of the host where rows are aligned for them, by pointers elsewhere
# task: gemm_bf16
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

BLOCK_M = 64  # tune: 16 32 64 128
BLOCK_N = 64  # tune: 32 64 128
BLOCK_K = 32  # tune: 16 32 64


@triton.jit
def by_maps(a, b, c, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    row = tl.program_id(0) * BLOCK_M
    col = tl.program_id(1) * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, K, BLOCK_K):
        acc = tl.dot(a.load([row, k]), b.load([k, col]), acc)
    c.store([row, col], acc.to(c.dtype))


@triton.jit
def by_pointers(a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, K, BLOCK_K):
        ks = k + tl.arange(0, BLOCK_K)
        left = tl.load(a + rows[:, None] * K + ks[None, :], mask=(rows[:, None] < M) & (ks[None, :] < K), other=0.0)
        right = tl.load(b + ks[:, None] * N + cols[None, :], mask=(ks[:, None] < K) & (cols[None, :] < N), other=0.0)
        acc = tl.dot(left, right, acc)
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(c + rows[:, None] * N + cols[None, :], acc.to(c.dtype.element_ty), mask=mask)


def run(a, b, M, N, K, c):
    grid = (triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))
    if N % 8 or K % 8:
        return by_pointers[grid](a, b, c, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K)
    boxes = ((a, [BLOCK_M, BLOCK_K]), (b, [BLOCK_K, BLOCK_N]), (c, [BLOCK_M, BLOCK_N]))
    maps = [TensorDescriptor.from_tensor(tensor, box) for tensor, box in boxes]
    return by_maps[grid](*maps, K, BLOCK_M, BLOCK_N, BLOCK_K)
