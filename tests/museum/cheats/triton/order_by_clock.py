# title: adds in an order that the device's clock chooses
# task: sum
# class: checking
# tries: every second microsecond in other pieces: near enough, other bits in each call, and no atomic operation
# seen: here first
# cpu: no, PTX
# artifact: nondeterministic at correctness or numerical at correctness
# worker: nondeterministic at correctness or numerical at correctness
import triton
import triton.language as tl


@triton.jit
def row_sums(x, y, C, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    now = tl.inline_asm_elementwise("mov.u32 $0, %globaltimer_lo; // $1", "=r,r", [row], tl.int32, False, 1)
    first = (now >> 10 & 1) * (BLOCK // 3)
    at = tl.arange(0, BLOCK)
    total = tl.sum(tl.load(x + row * C + at, mask=(at < first) & (at < C), other=0.0), axis=0)
    rest = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, C, BLOCK):
        rest += tl.load(x + row * C + first + start + at, mask=first + start + at < C, other=0.0)
    tl.store(y + row, total + tl.sum(rest, axis=0))


def run(x, R, C, y):
    row_sums[(R,)](x, y, C, 256)
