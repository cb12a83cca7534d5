# title: begins each row at its end, the last row first
# task: sum
import triton
import triton.language as tl

BLOCK = 512  # tune: 16 512 1024


@triton.jit
def row_sums(x, y, R, C, BLOCK: tl.constexpr):
    row = (R - 1 - tl.program_id(0)).to(tl.int64)
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, C, BLOCK):
        col = C - 1 - start - at
        total += tl.load(x + row * C + col, mask=col >= 0, other=0.0)
    tl.store(y + row, tl.sum(total, axis=0))


def run(x, R, C, y):
    row_sums[(R,)](x, y, R, C, BLOCK)
