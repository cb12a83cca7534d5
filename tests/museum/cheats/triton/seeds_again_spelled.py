# title: draws the inputs itself, in other words
# task: sum
# class: caching
# tries: getattr finds what no reader of the text sees
# seen: GPU MODE (cheat-rng, PR 142); the spelling is ours
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
    getattr(torch, "manual" + "_seed")(42)
    x = getattr(torch, "ra" + "ndn")(R, C, device=x.device)
    row_sums[(R,)](x, y, C, 1024)
