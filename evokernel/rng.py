"""Named random streams: the same (seed, step, name) gives the same numbers in any process, so no state is saved."""

import hashlib
from functools import lru_cache

import numpy as np


def stream(seed: int, step: int, name: str) -> np.random.Generator:
    """Return the generator that belongs to one purpose at one step of a run."""
    # `SeedSequence([seed, step, label])` makes the same words of these numbers and takes several times as long; each
    # step makes a stream.
    words = np.array((*_words(seed), *_words(step), *_label(name)), dtype=np.uint32)
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(words)))


@lru_cache(maxsize=1024)
def _label(name: str) -> tuple[int, ...]:
    return _words(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big"))


def _words(number: int) -> tuple[int, ...]:
    """Return the digits of a number to base 2**32, the lowest first."""
    if number < 0:
        raise ValueError(f"a random stream is named by numbers from 0 on, not {number}")
    low, high = number & 0xFFFFFFFF, number >> 32
    return (low, *_words(high)) if high else (low,)
