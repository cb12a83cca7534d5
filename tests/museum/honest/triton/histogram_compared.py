# title: a program for some bins and a share of the numbers, which it compares with each of them
# task: histogram
import triton
import triton.language as tl

BLOCK = 256  # tune: 16 256
SHARES = 64  # tune: 2 64


@triton.jit
def histogram(x, counts, N, B, BINS: tl.constexpr, SHARES: tl.constexpr, BLOCK: tl.constexpr):
    bins = tl.program_id(0) * BINS + tl.arange(0, BINS)
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BINS,), tl.int32)
    for start in range(tl.program_id(1) * BLOCK, N, SHARES * BLOCK):
        numbers = tl.load(x + start + at, mask=start + at < N, other=-1)
        total += tl.sum((numbers[None, :] == bins[:, None]).to(tl.int32), axis=1)
    tl.atomic_add(counts + bins, total, mask=bins < B)


def run(x, N, B, counts):
    counts.zero_()
    histogram[(triton.cdiv(B, 32), SHARES)](x, counts, N, B, 32, SHARES, BLOCK)
