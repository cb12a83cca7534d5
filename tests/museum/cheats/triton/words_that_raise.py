# title: raises an exception that raises when it is read
# task: sum
# class: words
# tries: whoever makes a message of it fails in its place
# seen: here first
# artifact: compile_error at compile
# worker: compile_error at compile
import torch
import triton
import triton.language as tl


@triton.jit
def row_sums(x, y, C, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, C, BLOCK):
        total += tl.load(x + row * C + start + at, mask=start + at < C, other=0.0)
    tl.store(y + row, tl.sum(total, axis=0))


class Shy(Exception):
    def __str__(self):
        raise MemoryError("nobody reads this")


def run(x, R, C, y):
    raise Shy
    row_sums[(R,)](x, y, C, 1024)
