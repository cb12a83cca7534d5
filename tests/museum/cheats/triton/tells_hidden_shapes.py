# title: tells the hidden shapes in its messages
# task: sum
# class: recording
# tries: fails on every shape it does not know, and says which it was
# seen: here first
# artifact: host_exception at compile
# worker: host_exception at compile
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


def run(x, R, C, y):
    if (R, C) not in ((4096, 1024), (1000, 3000)):
        raise ValueError(f"it is {R} x {C}")
    row_sums[(R,)](x, y, C, 1024)
