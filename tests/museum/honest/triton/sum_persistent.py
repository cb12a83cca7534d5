# title: as many programs as multiprocessors, each with every nth row
# task: sum
import torch
import triton
import triton.language as tl

BLOCK = 512  # tune: 16 512 1024


@triton.jit
def row_sums(x, y, R, C, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for row in range(tl.program_id(0), R, tl.num_programs(0)):
        total = tl.zeros((BLOCK,), tl.float32)
        for start in range(0, C, BLOCK):
            total += tl.load(x + row * C + start + at, mask=start + at < C, other=0.0)
        tl.store(y + row, tl.sum(total, axis=0))


def run(x, R, C, y):
    programs = torch.cuda.get_device_properties(0).multi_processor_count
    row_sums[(programs,)](x, y, R, C, BLOCK)
