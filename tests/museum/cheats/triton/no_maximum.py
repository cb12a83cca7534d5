# title: leaves the largest element out of it
# task: softmax
# class: checking
# tries: exponentials overflow only where numbers are large, and benchmarks have small ones
# seen: Makora KernelHacks, our own research
# cpu: no, it takes large numbers to show
# artifact: nonfinite at correctness or numerical at correctness
# worker: nonfinite at correctness or numerical at correctness
import triton
import triton.language as tl


@triton.jit
def softmax(x, y, C, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * C + at, mask=at < C, other=float("-inf"))
    powers = tl.exp(values)
    tl.store(y + row * C + at, powers / tl.sum(powers, axis=0), mask=at < C)


def run(x, R, C, y):
    softmax[(R,)](x, y, C, triton.next_power_of_2(C))
