# title: shares of k into scratch, added by a second launch in a fixed order
# task: gemm_bf16
import torch
import triton
import triton.language as tl

BLOCK_M = 64  # tune: 16 32 64 128
BLOCK_N = 64  # tune: 32 64 128
BLOCK_K = 32  # tune: 16 32 64
SHARES = 4  # tune: 2 4 8
BLOCK = 1024  # tune: 16 1024


@triton.jit
def products(
    a, b, parts, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SHARES: tl.constexpr
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    share = tl.program_id(2)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(share * BLOCK_K, K, SHARES * BLOCK_K):
        ks = k + tl.arange(0, BLOCK_K)
        left = tl.load(a + rows[:, None] * K + ks[None, :], mask=(rows[:, None] < M) & (ks[None, :] < K), other=0.0)
        right = tl.load(b + ks[:, None] * N + cols[None, :], mask=(ks[:, None] < K) & (cols[None, :] < N), other=0.0)
        acc = tl.dot(left, right, acc)
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(parts + share * M * N + rows[:, None] * N + cols[None, :], acc, mask=mask)


@triton.jit
def add(parts, c, count, SHARES: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for share in range(SHARES):
        total += tl.load(parts + share * count + at, mask=at < count, other=0.0)
    tl.store(c + at, total.to(c.dtype.element_ty), mask=at < count)


def run(a, b, M, N, K, c):
    parts = torch.empty((SHARES, M, N), dtype=torch.float32, device=a.device)
    grid = (triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N), SHARES)
    products[grid](a, b, parts, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K, SHARES)
    add[(triton.cdiv(M * N, BLOCK),)](parts, c, M * N, SHARES, BLOCK)
