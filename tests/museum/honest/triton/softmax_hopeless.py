# title: waits for 70 ms in each call: far too slow, and right
# task: softmax
# cpu: no, PTX
import triton
import triton.language as tl

WAIT: tl.constexpr = tl.constexpr("""
{
    .reg .u64 begin, now;
    .reg .pred early;
    mov.u64 begin, %globaltimer;
wait:
    mov.u64 now, %globaltimer;
    sub.u64 now, now, begin;
    setp.lt.u64 early, now, 70000000;
    @early bra wait;
    mov.b32 $0, $1;
}
""")


@triton.jit
def softmax(x, y, C, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    if row == 0:
        row = tl.inline_asm_elementwise(WAIT, "=r,r", [row], tl.int32, False, 1)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * C + at, mask=at < C, other=float("-inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + row * C + at, powers / tl.sum(powers, axis=0), mask=at < C)


def run(x, R, C, y):
    softmax[(R,)](x, y, C, BLOCK=triton.next_power_of_2(C), num_warps=8)
