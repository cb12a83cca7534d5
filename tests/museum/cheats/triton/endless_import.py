# title: never comes to an end when it is imported
# task: sum
# class: clock
# tries: holds up the build, and whoever waits for it
# seen: here, as everywhere
# artifact: compile_timeout at compile
# worker: compile_timeout at compile
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


while True:
    pass


def run(x, R, C, y):
    row_sums[(R,)](x, y, C, 1024)
