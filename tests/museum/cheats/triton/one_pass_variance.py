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
    mask = at < C
    values = tl.load(x + row * C + at, mask=mask, other=0.0)
    mean = tl.sum(values, axis=0) / C
    scale = tl.rsqrt(tl.sum(values * values, axis=0) / C - mean * mean + eps)
    y_row = (values - mean) * scale * tl.load(gain + at, mask=mask) + tl.load(shift + at, mask=mask)
    tl.store(y + row * C + at, y_row, mask=mask)


def run(x, gain, shift, R, C, eps, y):
    layernorm[(R,)](x, gain, shift, y, C, eps, triton.next_power_of_2(C))
