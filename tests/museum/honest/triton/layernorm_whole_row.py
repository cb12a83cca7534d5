# title: a row in registers, its mean taken off before squares are made
# task: layernorm
import triton
import triton.language as tl


@triton.jit
def layernorm(x, gain, shift, y, C, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    mask = at < C
    values = tl.load(x + row * C + at, mask=mask, other=0.0)
    off = tl.where(mask, values - tl.sum(values, axis=0) / C, 0.0)
    scale = tl.rsqrt(tl.sum(off * off, axis=0) / C + eps)
    tl.store(y + row * C + at, off * scale * tl.load(gain + at, mask=mask) + tl.load(shift + at, mask=mask), mask=mask)


def run(x, gain, shift, R, C, eps, y):
    layernorm[(R,)](x, gain, shift, y, C, eps, BLOCK=triton.next_power_of_2(C), num_warps=8)
