# title: draws the inputs itself, from the seed that everybody takes
# task: sum
# class: caching
# tries: resets torch's generator and draws what the harness drew
# seen: GPU MODE (cheat-rng, PR 142), kernelguard's rules
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


def run(x, R, C, y):
    torch.manual_seed(42)
    x = torch.randn(R, C, device=x.device)
    row_sums[(R,)](x, y, C, 1024)
