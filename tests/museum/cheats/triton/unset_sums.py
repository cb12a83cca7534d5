# title: adds to an output that it never set
# task: sum
# class: checking
# tries: outputs are zero in most harnesses
# seen: here first, as an honest mistake
# artifact: unwritten_output at smoke or nonfinite at smoke
# worker: unwritten_output at smoke or nonfinite at smoke
import triton
import triton.language as tl


@triton.jit
def row_sums(x, y, C, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    for start in range(0, C, BLOCK):
        tl.atomic_add(y + row, tl.sum(tl.load(x + row * C + start + at, mask=start + at < C, other=0.0), axis=0))


def run(x, R, C, y):
    row_sums[(R,)](x, y, C, 1024)
