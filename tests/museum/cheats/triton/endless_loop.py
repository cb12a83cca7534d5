# title: never comes to an end on the device
# task: sum
# class: clock
# tries: holds up the device, and whoever waits for it
# seen: kernelguard's rules, PyGPUBench
# artifact: timeout at smoke
# worker: timeout at smoke
import torch
import triton
import triton.language as tl


@triton.jit
def waits(x, y):
    while tl.load(x, volatile=True) < 1e38:
        tl.store(y + tl.program_id(0), 1.0)


def run(x, R, C, y):
    waits[(R,)](x, y)
