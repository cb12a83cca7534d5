# title: fails an assertion of its own
# task: sum
# class: checking
# tries: a kernel that ends early may leave the check of errors to the next one
# seen: here first
# artifact: device_fault at smoke
# worker: device_fault at smoke
import triton
import triton.language as tl


@triton.jit(debug=True)
def row_sums(x, y, C, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    tl.device_assert(row < 0)
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, C, BLOCK):
        total += tl.load(x + row * C + start + at, mask=start + at < C, other=0.0)
    tl.store(y + row, tl.sum(total, axis=0))


def run(x, R, C, y):
    row_sums[(R,)](x, y, C, 1024)
