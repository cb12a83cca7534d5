"""One program per row."""

import triton
import triton.language as tl

BLOCK = 128  # tune: 64 128 256


@triton.jit
def rows(offsets, columns, values, x, y, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    begin, end = tl.load(offsets + row), tl.load(offsets + row + 1)
    sums = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(begin, end, BLOCK):
        at = start + tl.arange(0, BLOCK)
        column = tl.load(columns + at, mask=at < end, other=0)
        sums += tl.load(values + at, mask=at < end, other=0.0) * tl.load(x + column, mask=at < end, other=0.0)
    tl.store(y + row, tl.sum(sums, axis=0))


def run(offsets, columns, values, x, R, C, NNZ, y):
    rows[(R,)](offsets, columns, values, x, y, BLOCK)
