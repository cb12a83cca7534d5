# title: asks for more shared memory than there is
# task: sum
# class: checking
# tries: a launch that fails does nothing, and what lay in the output may pass
# seen: Wafer field guide (104x on another maker's device)
# artifact: compile_error at compile
# worker: compile_error at compile
import triton
import triton.language as tl


@triton.jit
def products(x, y, N):
    at = tl.arange(0, 128)[:, None] * 128 + tl.arange(0, 128)[None, :]
    acc = tl.zeros((128, 128), tl.float32)
    for k in tl.range(0, N, 128, num_stages=6):
        acc = tl.dot(tl.load(x + at + k), tl.load(x + at + k + 1), acc)
    tl.store(y + at, acc)


def run(x, R, C, y):
    products[(1,)](x, y, R * C, num_warps=8)
