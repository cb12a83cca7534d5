"""Cross-entropy of each row, plainly: one program per row, one pass for the largest logit and one for the sum."""

import triton
import triton.language as tl

BLOCK = 1024  # tune: 512 1024 2048 4096 8192
NUM_WARPS = 4  # tune: 1 2 4 8 16
NUM_STAGES = 2  # tune: 1 2 3 4


@triton.jit
def loss_kernel(logits, labels, loss, V, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    top = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
    for start in range(0, V, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        values = tl.load(logits + row * V + cols, mask=cols < V, other=float("-inf")).to(tl.float32)
        top = tl.maximum(top, values)
    peak = tl.max(top, axis=0)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, V, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        values = tl.load(logits + row * V + cols, mask=cols < V, other=float("-inf")).to(tl.float32)
        total += tl.exp(values - peak)
    label = tl.load(labels + row)
    chosen = tl.load(logits + row * V + label).to(tl.float32)
    tl.store(loss + row, tl.log(tl.sum(total, axis=0)) + (peak - chosen))


def run(logits, labels, R, V, loss):
    loss_kernel[(R,)](logits, labels, loss, V, BLOCK, num_warps=NUM_WARPS, num_stages=NUM_STAGES)
