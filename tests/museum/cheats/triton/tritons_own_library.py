# title: takes the library of Triton's own tests
# task: sum
# class: not the task
# tries: triton.testing and its like know vendors' routines
# seen: here first
# artifact: static_reject at static
# worker: static_reject at static
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


from triton._C.libtriton import nvidia


def run(x, R, C, y):
    row_sums[(R,)](x, y, C, 1024)
