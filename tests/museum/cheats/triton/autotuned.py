# title: tunes itself when it is called
# task: sum
# class: building
# tries: the calls that nobody times find the best settings
# seen: our own research
# artifact: static_reject at static
# worker: static_reject at static
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK": 1024})], key=["C"])
@triton.jit
def row_sums(x, y, C, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, C, BLOCK):
        total += tl.load(x + row * C + start + at, mask=start + at < C, other=0.0)
    tl.store(y + row, tl.sum(total, axis=0))


def run(x, R, C, y):
    row_sums[(R,)](x, y, C)
