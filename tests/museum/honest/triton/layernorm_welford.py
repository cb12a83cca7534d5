# title: means and squares of blocks, merged as by Chan
# task: layernorm
import triton
import triton.language as tl

BLOCK = 256  # tune: 16 256 512


@triton.jit
def layernorm(x, gain, shift, y, C, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    count = 0.0
    mean = 0.0
    squares = 0.0
    for start in range(0, C, BLOCK):
        mask = start + at < C
        values = tl.load(x + row * C + start + at, mask=mask, other=0.0)
        here = tl.minimum(C - start, BLOCK).to(tl.float32)
        own = tl.sum(values, axis=0) / here
        off = tl.where(mask, values - own, 0.0)
        apart = own - mean
        both = count + here
        squares += tl.sum(off * off, axis=0) + apart * apart * count * here / both
        mean += apart * here / both
        count = both
    scale = tl.rsqrt(squares / C + eps)
    for start in range(0, C, BLOCK):
        mask = start + at < C
        values = (tl.load(x + row * C + start + at, mask=mask) - mean) * scale
        values = values * tl.load(gain + start + at, mask=mask) + tl.load(shift + start + at, mask=mask)
        tl.store(y + row * C + start + at, values, mask=mask)


def run(x, gain, shift, R, C, eps, y):
    layernorm[(R,)](x, gain, shift, y, C, eps, BLOCK)
