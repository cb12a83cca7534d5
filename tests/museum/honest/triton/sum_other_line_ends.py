# title: other ends of lines in its comments
# task: sum
import triton
import triton.language as tl

# a line separator of Unicode:  , a next line: , and a form feed: , none of which ends a line of Python
BLOCK = 64  # tune: 32 64 128


@triton.jit
def loaded(at, inside):
    return tl.load(at, mask=inside, other=0.0)


@triton.jit
def row_sums(x, y, C, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, C, BLOCK):
        total += loaded(x + row * C + start + at, start + at < C)
    tl.store(y + row, tl.sum(total, axis=0))


def run(x, R, C, y):
    row_sums[(R,)](x, y, C, BLOCK)
