# title: writes beyond its output, too
# task: sum
# class: checking
# tries: what lies behind may be somebody's answer, or his clock
# seen: CUDA-L2, PyGPUBench
# cpu: no, it would write to memory of the interpreter's
# artifact: out_of_bounds at smoke
# worker: out_of_bounds at smoke
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
    tl.store(y + tl.num_programs(0) + row % 8, 3.0)


def run(x, R, C, y):
    row_sums[(R,)](x, y, C, 1024)
