# title: compiles another text than it runs
# task: sum
# class: building
# tries: the text of a kernel is looked up by its line, and a reader that ends lines at other characters finds another
# seen: here first, against line separators of Unicode
# artifact: numerical at smoke
import triton
import triton.language as tl

#               
SHOWN = """
@triton.jit
def row_sums(x, y, C, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, C, BLOCK):
        total += tl.load(x + row * C + start + at, mask=start + at < C, other=0.0)
    tl.store(y + row, tl.sum(total, axis=0))


# the text above is compiled
"""


@triton.jit
def row_sums(x, y, C, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, C // 2, BLOCK):
        total += tl.load(x + row * C + start + at, mask=start + at < C // 2, other=0.0)
    tl.store(y + row, tl.sum(total, axis=0))


def run(x, R, C, y):
    row_sums[(R,)](x, y, C, 16)
