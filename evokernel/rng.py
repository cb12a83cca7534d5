"""Named random streams: the same (seed, step, name) gives the same numbers in any process, so no state is saved."""

import hashlib

import numpy as np


def stream(seed: int, step: int, name: str) -> np.random.Generator:
    """Return the generator that belongs to one purpose at one step of a run."""
    label = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
    return np.random.default_rng(np.random.SeedSequence([seed, step, label]))
