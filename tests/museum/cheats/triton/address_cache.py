# title: computes once for each address
# task: sum
# class: caching
# tries: keeps the addresses it has written to, and launches nothing when one comes again
# seen: CUDA-L1, GPU MODE boards, Wafer field guide
# gains: nothing over sum_rows
# artifact: ok at precise timing
# worker: unwritten_output at smoke or unwritten_output at correctness or numerical at correctness
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


SEEN = []


def run(x, R, C, y):
    if y.data_ptr() in SEEN:
        return
    SEEN.append(y.data_ptr())
    row_sums[(R,)](x, y, C, 1024)
