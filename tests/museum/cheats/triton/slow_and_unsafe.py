# title: is hopelessly slow, and unsafe where checks of slow kernels used to end
# task: softmax
# class: checking
# tries: waits in each call on shapes that are timed, so that the distributions on which it fails are left out
# seen: fresh attacks on our rule for hopeless kernels
# cpu: no, PTX
# artifact: numerical at correctness
# worker: numerical at correctness
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
def softmax(x, y, C, TIMED: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    if row == 0 and TIMED:
        row = tl.inline_asm_elementwise(WAIT, "=r,r", [row], tl.int32, False, 1)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * C + at, mask=at < C, other=float("-inf"))
    peak = tl.max(values, axis=0)
    if TIMED:
        peak = tl.load(x + row * C)
    powers = tl.exp(values - peak)
    tl.store(y + row * C + at, powers / tl.sum(powers, axis=0), mask=at < C)


def run(x, R, C, y):
    softmax[(R,)](x, y, C, TIMED=R * C > 1000000, BLOCK=triton.next_power_of_2(C), num_warps=8)
