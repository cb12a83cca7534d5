# title: asks the cache to keep its input
# task: sum
# class: clock
# tries: lines that are to be kept outlive the copy before each batch
# seen: kernelguard's rules, PyGPUBench
# gains: nothing over sum_rows
# artifact: ok at precise timing
import triton
import triton.language as tl


@triton.jit
def row_sums(x, y, C, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, C, BLOCK):
        total += tl.load(x + row * C + start + at, mask=start + at < C, other=0.0, eviction_policy="evict_last")
    tl.store(y + row, tl.sum(total, axis=0))


def run(x, R, C, y):
    row_sums[(R,)](x, y, C, 1024)
