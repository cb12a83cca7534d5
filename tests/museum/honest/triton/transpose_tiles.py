# title: tiles turned round in registers
# task: transpose
import triton
import triton.language as tl

BLOCK_R = 64  # tune: 16 32 64
BLOCK_C = 64  # tune: 16 32 64


@triton.jit
def transpose(x, y, R, C, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    cols = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    tile = tl.load(x + rows[:, None] * C + cols[None, :], mask=(rows[:, None] < R) & (cols[None, :] < C))
    tl.store(y + cols[:, None] * R + rows[None, :], tl.trans(tile), mask=(cols[:, None] < C) & (rows[None, :] < R))


def run(x, R, C, y):
    transpose[(triton.cdiv(R, BLOCK_R), triton.cdiv(C, BLOCK_C))](x, y, R, C, BLOCK_R, BLOCK_C)
