# title: leaves the kernel by an instruction
# task: sum
# class: clock
# tries: the second half of the programs ends before it writes
# seen: here first
# cpu: no, PTX
# artifact: unwritten_output at smoke
# worker: unwritten_output at smoke
import triton
import triton.language as tl


@triton.jit
def row_sums(x, y, C, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    if row * 2 > tl.num_programs(0):
        at = tl.inline_asm_elementwise("exit; mov.b32 $0, $1;", "=r,r", [at], tl.int32, False, 1)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, C, BLOCK):
        total += tl.load(x + row * C + start + at, mask=start + at < C, other=0.0)
    tl.store(y + row, tl.sum(total, axis=0))


def run(x, R, C, y):
    row_sums[(R,)](x, y, C, 1024)
