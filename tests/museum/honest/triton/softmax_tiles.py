# title: several rows for each program, in three passes
# task: softmax
import triton
import triton.language as tl

ROWS = 4  # tune: 4 8
BLOCK = 256  # tune: 16 256 512


@triton.jit
def softmax(x, y, R, C, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    cols = tl.arange(0, BLOCK)[None, :]
    tops = tl.full((ROWS, BLOCK), float("-inf"), tl.float32)
    for start in range(0, C, BLOCK):
        mask = (rows < R) & (start + cols < C)
        values = tl.load(x + rows * C + start + cols, mask=mask, other=float("-inf"))
        tops = tl.maximum(tops, values)
    peak = tl.max(tops, axis=1)
    peak = tl.where(peak == float("-inf"), 0.0, peak)
    parts = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(0, C, BLOCK):
        mask = (rows < R) & (start + cols < C)
        values = tl.load(x + rows * C + start + cols, mask=mask, other=float("-inf"))
        parts += tl.exp(values - peak[:, None])
    total = tl.sum(parts, axis=1)
    total = tl.where(total == 0.0, 1.0, total)
    for start in range(0, C, BLOCK):
        mask = (rows < R) & (start + cols < C)
        values = tl.load(x + rows * C + start + cols, mask=mask, other=0.0)
        tl.store(y + rows * C + start + cols, tl.exp(values - peak[:, None]) / total[:, None], mask=mask)


def run(x, R, C, y):
    softmax[(triton.cdiv(R, ROWS),)](x, y, R, C, ROWS, BLOCK)
