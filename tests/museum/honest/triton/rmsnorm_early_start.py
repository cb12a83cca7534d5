# title: the second launch may start before the first has ended, and waits for it where it needs its results
# task: rmsnorm
# cpu: no, the interpreter knows no programmatic launches
import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

BLOCK = 512  # tune: 256 512 1024


@triton.jit
def scales(x, scale, C, eps, BLOCK: tl.constexpr):
    gdc_launch_dependents()
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, C, BLOCK):
        values = tl.load(x + row * C + start + at, mask=start + at < C, other=0.0)
        squares += values * values
    tl.store(scale + row, tl.rsqrt(tl.sum(squares, axis=0) / C + eps))


@triton.jit
def products(x, gain, scale, y, C, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = at < C
    values = tl.load(x + row * C + at, mask=mask) * tl.load(gain + at, mask=mask)
    gdc_wait()
    tl.store(y + row * C + at, values * tl.load(scale + row), mask=mask)


def run(x, gain, R, C, eps, y):
    scale = torch.empty(R, dtype=torch.float32, device=x.device)
    scales[(R,)](x, scale, C, eps, BLOCK)
    products[(R, triton.cdiv(C, BLOCK))](x, gain, scale, y, C, BLOCK, launch_pdl=True)
