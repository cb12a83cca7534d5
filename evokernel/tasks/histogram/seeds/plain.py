"""A histogram, plainly: each program counts its part of the numbers, block by block, and adds its counts to all."""

import triton
import triton.language as tl

BLOCK = 1024  # tune: 512 1024 2048 4096
PROGRAMS = 512  # tune: 128 256 512 1024 2048
NUM_WARPS = 4  # tune: 1 2 4 8 16
NUM_STAGES = 2  # tune: 1 2 3 4


@triton.jit
def histogram_kernel(x, counts, N, B, BLOCK: tl.constexpr, BINS: tl.constexpr):
    bins = tl.arange(0, BINS)
    found = tl.zeros((BINS,), dtype=tl.int32)
    for start in range(tl.program_id(0) * BLOCK, N, tl.num_programs(0) * BLOCK):
        at = start + tl.arange(0, BLOCK)
        values = tl.load(x + at, mask=at < N, other=0)
        found += tl.histogram(values, BINS, mask=at < N)
    tl.atomic_add(counts + bins, found, mask=bins < B)


def run(x, N, B, counts):
    counts.zero_()
    bins = max(32, triton.next_power_of_2(B))
    grid = (min(PROGRAMS, triton.cdiv(N, BLOCK)),)
    histogram_kernel[grid](x, counts, N, B, BLOCK, bins, num_warps=NUM_WARPS, num_stages=NUM_STAGES)
