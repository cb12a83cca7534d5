"""The secret pattern of output buffers before a call: NaN in every float format, so that unwritten elements show."""

import numpy as np
import torch

from evokernel.evaluate.numerics.arrays import Array, bits


def draw_poison(rng: np.random.Generator) -> int:
    """Return four 16-bit quarters, each a quiet NaN in float16 and bfloat16, and together in float32 and float64."""
    quarters = rng.integers(0x7FC1, 0x8000, 4, dtype=np.int64)  # never payload 0, which arithmetic produces
    quarters[0] |= 0x7FF8  # the first quarter begins a float64, whose exponent is longer
    return int((quarters << np.array([48, 32, 16, 0])).sum())


def poison_like(array: Array, poison: int) -> Array:
    """Return a contiguous array of the same shape, dtype and device that holds the 64-bit pattern over and over."""
    words = -(-array.numel() * array.element_size() // 8)
    pattern = torch.full((words,), poison, dtype=torch.int64, device=array.device)
    return pattern.view(array.dtype)[: array.numel()].view(array.shape)


def is_poison(array: Array, poison: int) -> Array:
    """Mark the elements of an array that hold the pattern."""
    return bits(array) == bits(poison_like(array, poison))
