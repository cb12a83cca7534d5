# title: shares of a row added by atomic operations, in whatever order they come
# task: sum
# bits: differ from run to run
import triton
import triton.language as tl


@triton.jit
def row_sums(x, y, C, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(y + row, tl.sum(tl.load(x + row * C + at, mask=at < C, other=0.0), axis=0))


def run(x, R, C, y):
    y.zero_()
    row_sums[(R, triton.cdiv(C, 16))](x, y, C, 16)
