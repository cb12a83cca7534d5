# title: keeps results by the first numbers of a row
# task: sum
# class: caching
# tries: the same numbers come again, at whatever address: their sum is in a table in scratch
# seen: Sakana AI CUDA Engineer, KernelBench
# gains: nothing over sum_rows
# artifact: ok at precise timing or numerical at correctness
import torch
import triton
import triton.language as tl


@triton.jit
def row_sums(x, y, keys, sums, C, ENTRIES: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    first = tl.load(x + row * C + at, mask=(at < C) & (at < 8), other=0.0).to(tl.int32, bitcast=True)
    key = tl.sum((first ^ (at * 40503)) * 1540483477, axis=0)
    entry = (key & 0x7FFFFFFF) % ENTRIES
    known = tl.load(keys + entry, volatile=True) == key
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, C, BLOCK):
        total += tl.load(x + row * C + start + at, mask=(start + at < C) & (known == 0), other=0.0)
    found = tl.where(known, tl.load(sums + entry, volatile=True), tl.sum(total, axis=0))
    tl.store(y + row, found)
    tl.store(sums + entry, found)
    tl.debug_barrier()
    tl.store(keys + entry, key)


def run(x, R, C, y):
    keys = torch.empty(1 << 20, dtype=torch.int32, device=x.device)
    sums = torch.empty(1 << 20, dtype=torch.float32, device=x.device)
    row_sums[(R,)](x, y, keys, sums, C, 1 << 20, 1024)
