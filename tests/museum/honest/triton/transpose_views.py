# title: a copy by strides, between views that torch made
# task: transpose
import triton
import triton.language as tl

BLOCK_R = 32  # tune: 16 32 64
BLOCK_C = 32  # tune: 16 32 64


@triton.jit
def copy(source, target, R, C, row, col, to_row, to_col, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)[:, None]
    cols = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    mask = (rows < R) & (cols < C)
    tl.store(target + rows * to_row + cols * to_col, tl.load(source + rows * row + cols * col, mask=mask), mask=mask)


def run(x, R, C, y):
    target = y.t()
    strides = (*x.stride(), *target.stride())
    copy[(triton.cdiv(R, BLOCK_R), triton.cdiv(C, BLOCK_C))](x, target, R, C, *strides, BLOCK_R, BLOCK_C)
