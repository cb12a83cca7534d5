# title: ends each call with a launch that does not wait for the work before it
# task: sum
# class: clock
# tries: the next call waits for the last launch of this one only, which is over at once
# seen: an attack on this judge by a reader of its source
# cpu: no, the interpreter knows no programmatic launches
# gains: nothing over sum_rows
# artifact: ok at precise timing
import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents


@triton.jit
def row_sums(x, y, C, BLOCK: tl.constexpr):
    gdc_launch_dependents()
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, C, BLOCK):
        total += tl.load(x + row * C + start + at, mask=start + at < C, other=0.0)
    tl.store(y + row, tl.sum(total, axis=0))


@triton.jit
def last(spare):
    tl.store(spare, 1)


def run(x, R, C, y):
    row_sums[(R,)](x, y, C, 1024)
    last[(1,)](torch.empty(1, dtype=torch.int32, device=x.device), launch_pdl=True)
