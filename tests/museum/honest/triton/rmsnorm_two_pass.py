# title: squares first, then the row again
# task: rmsnorm
import triton
import triton.language as tl

BLOCK = 1024  # tune: 16 512 1024


@triton.jit
def rmsnorm(x, gain, y, C, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, C, BLOCK):
        values = tl.load(x + row * C + start + at, mask=start + at < C, other=0.0)
        squares += values * values
    scale = tl.rsqrt(tl.sum(squares, axis=0) / C + eps)
    for start in range(0, C, BLOCK):
        mask = start + at < C
        values = tl.load(x + row * C + start + at, mask=mask)
        tl.store(y + row * C + start + at, values * scale * tl.load(gain + start + at, mask=mask), mask=mask)


def run(x, gain, R, C, eps, y):
    rmsnorm[(R,)](x, gain, y, C, eps, BLOCK)
