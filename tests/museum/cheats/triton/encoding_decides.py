# title: is another program in the encoding that it names (coding: latin-1)
# task: sum
# class: building
# tries: a text that is judged without its encoding is another program in the file that a user imports
# seen: here first, against the export of a kernel
# artifact: numerical at smoke
import triton
import triton.language as tl

HALF = len("é") == 2


@triton.jit
def row_sums(x, y, C, END, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, END, BLOCK):
        total += tl.load(x + row * C + start + at, mask=start + at < END, other=0.0)
    tl.store(y + row, tl.sum(total, axis=0))


def run(x, R, C, y):
    row_sums[(R,)](x, y, C, C // 2 if HALF else C, 16)
