# title: one atomic addition of an integer for each number
# task: histogram
import triton
import triton.language as tl

BLOCK = 1024  # tune: 16 1024


@triton.jit
def histogram(x, counts, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    bins = tl.load(x + at, mask=at < N, other=0)
    tl.atomic_add(counts + bins, 1, mask=at < N)


def run(x, N, B, counts):
    counts.zero_()
    histogram[(triton.cdiv(N, BLOCK),)](x, counts, N, BLOCK)
