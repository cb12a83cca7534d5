# title: exponentials to the base of two, and a product with the reciprocal
# task: softmax
import triton
import triton.language as tl


@triton.jit
def softmax(x, y, C, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * C + at, mask=at < C, other=float("-inf"))
    powers = tl.exp2((values - tl.max(values, axis=0)) * 1.4426950408889634)
    tl.store(y + row * C + at, powers * (1.0 / tl.sum(powers, axis=0)), mask=at < C)


def run(x, R, C, y):
    softmax[(R,)](x, y, C, BLOCK=triton.next_power_of_2(C))
