# title: sums of blocks, their running sums, then every block with its own offset
# task: scan
import torch
import triton
import triton.language as tl

BLOCK = 256  # tune: 16 256 512


@triton.jit
def block_sums(x, sums, C, BLOCKS, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + row * C + at, mask=at < C, other=0.0)
    tl.store(sums + row * BLOCKS + tl.program_id(1), tl.sum(values, axis=0))


@triton.jit
def offsets(sums, BLOCKS):
    row = tl.program_id(0)
    carried = 0.0
    for block in range(BLOCKS):
        own = tl.load(sums + row * BLOCKS + block)
        tl.store(sums + row * BLOCKS + block, carried)
        carried += own


@triton.jit
def add_up(x, sums, y, C, BLOCKS, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + row * C + at, mask=at < C, other=0.0)
    before = tl.load(sums + row * BLOCKS + tl.program_id(1))
    tl.store(y + row * C + at, tl.cumsum(values, axis=0) + before, mask=at < C)


def run(x, R, C, y):
    blocks = triton.cdiv(C, BLOCK)
    sums = torch.empty((R, blocks), dtype=torch.float32, device=x.device)
    block_sums[(R, blocks)](x, sums, C, blocks, BLOCK)
    offsets[(R,)](sums, blocks)
    add_up[(R, blocks)](x, sums, y, C, blocks, BLOCK)
