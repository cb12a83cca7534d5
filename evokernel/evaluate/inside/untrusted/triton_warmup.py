"""Compiles one small kernel before the first candidate, so that forks inherit loaded and initialised libraries.

The first compilation of a process takes about half a second longer than the next.
"""

from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from .triton_driver import WARP, fix_options

CAPABILITY = 90


def _kernel(a: "Any", b: "Any", c: "Any", steps: "Any", block: tl.constexpr) -> None:
    """Use a little of everything: loops, masks, a product, a reduction, a transcendental function."""
    rows = tl.arange(0, block)[:, None]
    columns = tl.arange(0, block)[None, :]
    total = tl.zeros((block, block), dtype=tl.float32)
    for step in range(steps):
        place = rows * block + columns + step
        total += tl.dot(tl.load(a + place, mask=columns < steps, other=0.0), tl.load(b + place))
    total = tl.exp(total - tl.max(total, 1)[:, None])
    tl.store(c + rows * block + columns, total.to(tl.float16))


def warm() -> None:
    """Compile the kernel. The caller provides a writable place for Triton's cache and temporary files."""
    fix_options()
    types = {"a": "*fp16", "b": "*fp16", "c": "*fp16", "steps": "i32", "block": "constexpr"}
    source = ASTSource(triton.jit(_kernel), types, {"block": 64}, {})
    triton.compile(source, target=GPUTarget("cuda", CAPABILITY, WARP), options={"num_warps": 4, "num_stages": 3})
