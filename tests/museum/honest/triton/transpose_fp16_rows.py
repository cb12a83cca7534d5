# title: each program takes a row apart and writes a column, in fp16
# task: transpose_fp16
import triton
import triton.language as tl

BLOCK = 256  # tune: 16 256 1024


@triton.jit
def transpose(x, y, R, C, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at * R + row, tl.load(x + row * C + at, mask=at < C), mask=at < C)


def run(x, R, C, y):
    transpose[(R, triton.cdiv(C, BLOCK))](x, y, R, C, BLOCK)
