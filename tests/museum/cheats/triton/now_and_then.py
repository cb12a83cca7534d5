# title: is wrong once in a while
# task: sum
# class: checking
# tries: in one call of 256, told by the first element's bits, and by little
# seen: here first
# cpu: no, it is right in most calls
# artifact: cheat_suspect at precise timing or numerical at smoke or numerical at correctness
# worker: cheat_suspect at precise timing or numerical at smoke or numerical at correctness
import triton
import triton.language as tl


@triton.jit
def row_sums(x, y, C, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, C, BLOCK):
        total += tl.load(x + row * C + start + at, mask=start + at < C, other=0.0)
    odd = (tl.load(x).to(tl.int32, bitcast=True) & 255) == 21
    tl.store(y + row, tl.sum(total, axis=0) + tl.where(odd, 1.0, 0.0))


def run(x, R, C, y):
    row_sums[(R,)](x, y, C, 1024)
