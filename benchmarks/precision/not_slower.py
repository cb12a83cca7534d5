"""Softmax of each row, one program per row: what `slower.py` is compared with, no row done twice."""

import torch
import triton
import triton.language as tl

AGAIN = 0


@triton.jit
def softmax_kernel(x, y, spare, R, C, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    source = tl.where(row < R, row, row - R)
    values = tl.load(x + source * C + at, mask=at < C, other=-float("inf"))
    values = tl.exp(values - tl.max(values, 0))
    values = values / tl.sum(values, 0)
    tl.store(y + row * C + at, values, mask=(at < C) & (row < R))
    tl.store(spare + (row - R) * C + at, values, mask=(at < C) & (row >= R))


def run(x, R, C, y):
    spare = torch.empty(AGAIN, C, device=x.device)
    softmax_kernel[(R + min(AGAIN, R),)](x, y, spare, R, C, triton.next_power_of_2(C), num_warps=8)
