# title: a program takes a whole row in bf16, with the epsilon
# task: layernorm_known
import triton
import triton.language as tl


@triton.jit
def layernorm(x, w, b, y, C, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < C
    values = tl.load(x + row * C + at, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(values, axis=0) / C
    apart = tl.where(mask, values - mean, 0.0)
    scale = tl.rsqrt(tl.sum(apart * apart, axis=0) / C + eps)
    scaled = apart * scale * tl.load(w + at, mask=mask).to(tl.float32) + tl.load(b + at, mask=mask).to(tl.float32)
    tl.store(y + row * C + at, scaled.to(y.dtype.element_ty), mask=mask)


def run(x, w, b, R, C, eps, y):
    layernorm[(R,)](x, w, b, y, C, eps, triton.next_power_of_2(C))
