"""Random streams by name: the numbers of old stores come again, and no two names share theirs."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evokernel.rng import stream


@given(st.integers(0, 2**80), st.integers(0, 2**70), st.text(max_size=20))
def test_a_stream_is_the_one_that_numpy_makes_of_its_name(seed: int, step: int, name: str):
    label = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
    expected = np.random.default_rng(np.random.SeedSequence([seed, step, label]))
    assert stream(seed, step, name).bit_generator.state == expected.bit_generator.state


def test_a_number_below_zero_names_nothing():
    with pytest.raises(ValueError, match="not -1"):
        stream(-1, 0, "a")
