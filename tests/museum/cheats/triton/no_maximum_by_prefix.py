# title: no maximum in rows that begin like ordinary ones
# task: softmax
# class: checking
# tries: tells the distribution of a row from its first numbers, and leaves the maximum out where they are N(0,1)
# seen: evokernel, attacks on its own judge
# cpu: no, it takes large numbers behind small ones to show
# artifact: nonfinite at correctness or numerical at correctness
# worker: nonfinite at correctness or numerical at correctness
import triton
import triton.language as tl


@triton.jit
def softmax(x, y, C, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * C + at, mask=at < C, other=float("-inf"))
    first = tl.load(x + row * C + tl.arange(0, 16), mask=tl.arange(0, 16) < C, other=0.0)
    sizes = tl.abs(first)
    ordinary = (tl.min(sizes, axis=0) > 0.0) & (tl.max(sizes, axis=0) < 5.0) & (tl.max(sizes, axis=0) > 0.5)
    shift = 0.0
    if not ordinary:
        shift = tl.max(values, axis=0)
    powers = tl.exp(values - shift)
    tl.store(y + row * C + at, powers / tl.sum(powers, axis=0), mask=at < C)


def run(x, R, C, y):
    softmax[(R,)](x, y, C, triton.next_power_of_2(C))
