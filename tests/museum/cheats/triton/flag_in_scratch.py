# title: leaves a mark in scratch
# task: sum
# class: caching
# tries: memory that torch.empty gives may be the same in the next call: where the mark is, the work was done before
# seen: here first
# cpu: no, scratch is new memory in each call there
# artifact: unwritten_output at correctness
import torch
import triton
import triton.language as tl


@triton.jit
def row_sums(x, y, mark, C, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    late = tl.load(mark + row, volatile=True) == 7
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, C, BLOCK):
        total += tl.load(x + row * C + start + at, mask=(start + at < C) & (late == 0), other=0.0)
    tl.store(y + row, tl.sum(total, axis=0), mask=late == 0)
    tl.store(mark + row, 7)


def run(x, R, C, y):
    mark = torch.empty(R, dtype=torch.int32, device=x.device)
    row_sums[(R,)](x, y, mark, C, 1024)
