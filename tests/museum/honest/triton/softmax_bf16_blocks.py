# title: bf16 in memory, fp32 between
# task: softmax_bf16
import triton
import triton.language as tl

BLOCK = 512  # tune: 16 512 1024


@triton.jit
def softmax(x, y, C, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    peak = float("-inf")
    for start in range(0, C, BLOCK):
        values = tl.load(x + row * C + start + at, mask=start + at < C, other=float("-inf")).to(tl.float32)
        peak = tl.maximum(peak, tl.max(values, axis=0))
    total = 0.0
    for start in range(0, C, BLOCK):
        values = tl.load(x + row * C + start + at, mask=start + at < C, other=float("-inf")).to(tl.float32)
        total += tl.sum(tl.exp(values - peak), axis=0)
    for start in range(0, C, BLOCK):
        mask = start + at < C
        values = tl.load(x + row * C + start + at, mask=mask, other=0.0).to(tl.float32)
        tl.store(y + row * C + start + at, (tl.exp(values - peak) / total).to(y.dtype.element_ty), mask=mask)


def run(x, R, C, y):
    softmax[(R,)](x, y, C, BLOCK)
