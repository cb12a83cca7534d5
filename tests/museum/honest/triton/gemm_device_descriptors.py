# title: tiles by tensor maps that the kernel makes where rows are aligned for them, by pointers elsewhere
# task: gemm_fp16
import triton
import triton.language as tl

BLOCK_M = 64  # tune: 16 32 64 128
BLOCK_N = 64  # tune: 32 64 128
BLOCK_K = 32  # tune: 16 32 64


@triton.jit
def by_maps(a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    left = tl.make_tensor_descriptor(a, shape=[M, K], strides=[K, 1], block_shape=[BLOCK_M, BLOCK_K])
    right = tl.make_tensor_descriptor(b, shape=[K, N], strides=[N, 1], block_shape=[BLOCK_K, BLOCK_N])
    out = tl.make_tensor_descriptor(c, shape=[M, N], strides=[N, 1], block_shape=[BLOCK_M, BLOCK_N])
    row = tl.program_id(0) * BLOCK_M
    col = tl.program_id(1) * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, K, BLOCK_K):
        acc = tl.dot(left.load([row, k]), right.load([k, col]), acc)
    out.store([row, col], acc.to(c.dtype.element_ty))


@triton.jit
def by_pointers(a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(K):
        left = tl.load(a + rows * K + k, mask=rows < M, other=0.0).to(tl.float32)
        right = tl.load(b + k * N + cols, mask=cols < N, other=0.0).to(tl.float32)
        acc += left[:, None] * right[None, :]
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(c + rows[:, None] * N + cols[None, :], acc.to(c.dtype.element_ty), mask=mask)


def run(a, b, M, N, K, c):
    grid = (triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))
    if M == 1 or N % 8 or K % 8:
        by_pointers[grid](a, b, c, M, N, K, BLOCK_M, BLOCK_N)
    else:
        by_maps[grid](a, b, c, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K)
