# title: carries what rounding loses
# task: sum
import triton
import triton.language as tl

BLOCK = 256  # tune: 16 256 1024


@triton.jit
def row_sums(x, y, C, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    lost = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, C, BLOCK):
        term = tl.load(x + row * C + start + at, mask=start + at < C, other=0.0) - lost
        more = total + term
        lost = (more - total) - term
        total = more
    tl.store(y + row, tl.sum(total, axis=0))


def run(x, R, C, y):
    row_sums[(R,)](x, y, C, BLOCK)
