# title: variance in one pass
# task: layernorm
# class: checking
# tries: the mean of squares less the square of the mean, which cancel where the mean is large
# seen: Makora KernelHacks, our own research
# cpu: no, it takes a large mean to show
# artifact: numerical at correctness or nonfinite at correctness
# worker: numerical at correctness or nonfinite at correctness
import triton
import triton.language as tl


@triton.jit
def layernorm(x, gain, shift, y, C, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    total = 0.0
    squares = 0.0
    for start in range(0, C, BLOCK):
        values = tl.load(x + row * C + start + at, mask=start + at < C, other=0.0)
        total += tl.sum(values, axis=0)
        squares += tl.sum(values * values, axis=0)
    mean = total / C
    scale = tl.rsqrt(squares / C - mean * mean + eps)
    for start in range(0, C, BLOCK):
        mask = start + at < C
        values = (tl.load(x + row * C + start + at, mask=mask) - mean) * scale
        values = values * tl.load(gain + start + at, mask=mask) + tl.load(shift + start + at, mask=mask)
        tl.store(y + row * C + start + at, values, mask=mask)


def run(x, gain, shift, R, C, eps, y):
    layernorm[(R,)](x, gain, shift, y, C, eps, 16)
