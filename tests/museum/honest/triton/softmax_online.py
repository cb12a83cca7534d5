# title: peak and sum in one pass, corrected as the peak grows
# task: softmax
import triton
import triton.language as tl

BLOCK = 512  # tune: 16 512 1024


@triton.jit
def softmax(x, y, C, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    first = tl.load(x + row * C)
    peak = tl.full((BLOCK,), 0.0, tl.float32) + first
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, C, BLOCK):
        values = tl.load(x + row * C + start + at, mask=start + at < C, other=float("-inf"))
        higher = tl.maximum(peak, values)
        total = total * tl.exp(peak - higher) + tl.exp(values - higher)
        peak = higher
    highest = tl.max(peak, axis=0)
    whole = tl.sum(total * tl.exp(peak - highest), axis=0)
    for start in range(0, C, BLOCK):
        mask = start + at < C
        values = tl.load(x + row * C + start + at, mask=mask)
        tl.store(y + row * C + start + at, tl.exp(values - highest) / whole, mask=mask)


def run(x, R, C, y):
    softmax[(R,)](x, y, C, BLOCK)
