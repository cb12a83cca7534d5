# title: block after block, with the sum so far carried on
# task: scan
import triton
import triton.language as tl

BLOCK = 512  # tune: 16 512 1024


@triton.jit
def scan(x, y, C, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    carried = 0.0
    for start in range(0, C, BLOCK):
        mask = start + at < C
        values = tl.load(x + row * C + start + at, mask=mask, other=0.0)
        tl.store(y + row * C + start + at, tl.cumsum(values, axis=0) + carried, mask=mask)
        carried += tl.sum(values, axis=0)


def run(x, R, C, y):
    scan[(R,)](x, y, C, BLOCK)
