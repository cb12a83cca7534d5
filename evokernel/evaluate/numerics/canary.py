"""Secret patterns that show: those of outputs before a call, and that of padding.

One of outputs is NaN in every float format, so that unwritten elements show. The other is large and finite, of both
signs: a maximum or minimum with what is there skips a NaN, but not that. Types of one byte get eight bytes of their own
from each: near the ends of both ranges, odd and even, and none that a truth value has. `correctness` notices
what is left of them.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch

from evokernel.evaluate.numerics.arrays import Array, bits, raw_bytes
from evokernel.task import Tensor


def draw_poison(rng: np.random.Generator) -> int:
    """Return four 16-bit quarters, each a quiet NaN in float16 and bfloat16, and together in float32 and float64."""
    return int(_quiet_nans(rng, odd=0)[0])


def _quiet_nans(rng: np.random.Generator, *, odd: int, count: int = 1) -> npt.NDArray[np.uint64]:
    """Return words of such quarters: even ones of outputs, odd ones of padding, which arithmetic may carry on."""
    quarters = rng.integers(0x7FC2 >> 1, 0x7FFF >> 1, (count, 4), dtype=np.uint64)  # arithmetic makes payload 0, and
    quarters[:, 0] = rng.integers(0x7FF8 >> 1, 0x7FFF >> 1, count)  # a GPU's 0x7FFF; a float64's exponent is longer
    return _words(np.uint64(2) * quarters + np.uint64(odd))


def _words(quarters: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    words: npt.NDArray[np.uint64] = (quarters << np.array([48, 32, 16, 0], dtype=np.uint64)).sum(axis=1)
    return words


def draw_loud(rng: np.random.Generator) -> int:
    """Return four 16-bit quarters of about 2^100 in float32 and bfloat16, 2^13 in float16, the two halves of one sign.

    As integers they are large, too.
    """
    quarters = rng.integers(0x7180, 0x71C0, 4, dtype=np.int64)
    quarters[[0, 1] if rng.integers(2) else [2, 3]] |= 0x8000
    return int.from_bytes(quarters.astype("<u2").tobytes(), "little", signed=True)


def poison_like(array: Array, poison: int) -> Array:
    """Return a contiguous array of the same shape, dtype and device that holds the 64-bit pattern over and over."""
    if array.element_size() == 1:
        poison = _single_bytes(poison, array.dtype)
    words = -(-array.numel() * array.element_size() // 8)
    pattern = torch.full((words,), poison, dtype=torch.int64, device=array.device)
    return pattern.view(array.dtype)[: array.numel()].view(array.shape)


_QUIET = {torch.float8_e4m3fn: [0xFF], torch.float8_e5m2: [0xFD, 0xFE, 0xFF]}
_LARGE = {torch.float8_e4m3fn: [0x7D, 0x7E], torch.float8_e5m2: [0x7A, 0x7B]}
"""Bytes that are NaN, of a sign that arithmetic does not make, and large numbers, which get both signs."""


def _single_bytes(word: int, dtype: torch.dtype) -> int:
    """Return the eight bytes, drawn by a secret pattern; half of that itself would be 0x7F, a frequent result."""
    rng = np.random.default_rng(word % 2**64)
    if dtype in _QUIET:
        loud = np.isfinite(np.uint64(word % 2**64).view(np.float64))
        floats = rng.choice((_LARGE if loud else _QUIET)[dtype], 8) | rng.permutation([0, 0x80] * 4) * loud
        return int.from_bytes(floats.astype(np.uint8).tobytes(), "little", signed=True)
    near = np.array([2, 3, 0x78, 0x81, 0xF8, 0xF9]) + 2 * rng.integers(0, 3, 6)
    drawn = rng.permutation([*near, *rng.integers(8, 0x70, 2)]).astype(np.uint8)
    return int.from_bytes(drawn.tobytes(), "little", signed=True)


def is_poison(array: Array, poison: int) -> Array:
    """Mark the elements of an array that hold the pattern."""
    return bits(array) == bits(poison_like(array, poison))


def padding_bytes(rng: np.random.Generator, *, times: int = 1) -> Array:
    """Return what stands around a tensor and between its elements: in every float format NaN, huge and -huge in turn.

    They spoil any result that they enter, with a weight of 0, too. A NaN alone would hide from a maximum, and a huge
    number from a minimum. `times` such triples of 8 bytes each are drawn.
    """
    huge = _words(rng.integers(0x7B00, 0x7C00, (times, 4), dtype=np.uint64))  # below the infinities of float16
    triples = [_quiet_nans(rng, odd=1, count=times), huge, huge | np.uint64(0x8000800080008000)]
    return torch.from_numpy(np.stack(triples, axis=1).reshape(-1).view(np.uint8))


def repeated(pattern: Array, size: int) -> Array:
    """Return the elements of a pattern, over and over."""
    return pattern.repeat(-(-size // pattern.numel()))[:size]


def stored_bytes(tensor: Tensor, values: Array, sizes: Mapping[str, int]) -> bytes:
    """Return the bytes of a tensor's buffer: its values in the layout of the task, with padding between them."""
    strides = tensor.strides_at(sizes)
    if strides is None:
        return raw_bytes(values)
    size = tensor.storage_bytes_at(sizes)
    storage = repeated(padding_bytes(np.random.default_rng()), size).clone().view(values.dtype)
    storage.as_strided(values.shape, strides).copy_(values)
    return raw_bytes(storage)
