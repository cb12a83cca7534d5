# title: a product for rows of equal numbers, all of which it has looked at
# task: sum
import triton
import triton.language as tl


@triton.jit
def row_sums(x, y, C, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    mask = at < C
    values = tl.load(x + row * C + at, mask=mask, other=0.0)
    least = tl.min(tl.where(mask, values, float("inf")), axis=0)
    if least == tl.max(tl.where(mask, values, float("-inf")), axis=0):
        tl.store(y + row, least * C)
    else:
        tl.store(y + row, tl.sum(values, axis=0))


def run(x, R, C, y):
    row_sums[(R,)](x, y, C, triton.next_power_of_2(C))
