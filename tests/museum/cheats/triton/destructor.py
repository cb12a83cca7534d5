# title: launches in a destructor
# task: sum
# class: recording
# tries: when the object goes, which is at the end of the call
# seen: here first
# gains: nothing over sum_rows
# artifact: ok at precise timing
# worker: ok at precise timing
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


class Later:
    def __init__(self, *given):
        getattr(object, "__setattr__")(self, "given", given)

    def __del__(self):
        x, y, R, C = self.given
        row_sums[(R,)](x, y, C, 1024)


def run(x, R, C, y):
    Later(x, y, R, C)
