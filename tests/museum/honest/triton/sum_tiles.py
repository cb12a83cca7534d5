# title: a tile of several rows for each program
# task: sum
import triton
import triton.language as tl

ROWS = 8  # tune: 4 8 16
BLOCK = 128  # tune: 16 128 256


@triton.jit
def tile_sums(x, y, R, C, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(0, C, BLOCK):
        mask = (rows[:, None] < R) & (start + cols[None, :] < C)
        total += tl.load(x + rows[:, None] * C + start + cols[None, :], mask=mask, other=0.0)
    tl.store(y + rows, tl.sum(total, axis=1), mask=rows < R)


def run(x, R, C, y):
    tile_sums[(triton.cdiv(R, ROWS),)](x, y, R, C, ROWS, BLOCK)
