"""Rounding, bits and poison, in every dtype of a task."""

import math

import numpy as np
import pytest
import torch

from evokernel.evaluate.numerics.arrays import bits, identical, raw_bytes, store, torch_dtype, widen
from evokernel.evaluate.numerics.canary import draw_poison, is_poison, padding_bytes, poison_like
from evokernel.task import DTYPES
from tests.evaluate.kernels import fill_poison

FLOATS = [dtype for dtype in DTYPES if "float" in dtype]


def test_rounding_goes_to_the_nearest_even_number_and_beyond_the_largest_to_infinity():
    values = torch.tensor([1 + 2**-9, 1 + 3 * 2**-9, -0.0, math.inf, 3.4e38, 1e-40], dtype=torch.float64)
    assert widen(store(values, "bfloat16"))[:4].tolist() == [1.0, 1 + 2**-7, 0.0, math.inf]
    assert store(values, "bfloat16").view(torch.int16)[2] == -(2**15)
    assert widen(store(values, "float16"))[4] == math.inf
    assert store(torch.tensor([math.nan]), "bfloat16").isnan().all()


def test_widening_leaves_integers_alone():
    assert widen(torch.ones(2, dtype=torch.bfloat16)).dtype == torch.float64
    assert widen(torch.ones(2, dtype=torch.int32)).dtype == torch.int32


def test_identical_looks_at_bits():
    nan = torch.tensor([math.nan, 1.0])
    assert identical(nan, nan.clone())
    assert not identical(torch.tensor([0.0]), torch.tensor([-0.0]))
    assert not identical(torch.zeros(2), torch.zeros(2, dtype=torch.int32))
    assert not identical(torch.zeros(2), torch.zeros(1, 2))


@pytest.mark.parametrize("dtype", DTYPES)
def test_bytes_are_those_in_memory(dtype):
    array = torch.tensor([0, 1, 0, 1, 1, 0]).to(torch_dtype(dtype)).reshape(2, 3)
    assert raw_bytes(array.T) == raw_bytes(array.T.contiguous()) != raw_bytes(array)
    assert len(raw_bytes(array)) == 6 * DTYPES[dtype]
    assert len(raw_bytes(array[0, 0])) == DTYPES[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (4, 2, 8)])
def test_poison_is_found_where_it_was_left(dtype, shape):
    poison = draw_poison(np.random.default_rng(0))
    array = torch.ones(shape, dtype=torch_dtype(dtype))
    assert not is_poison(array, poison).any()
    fill_poison(array, poison=poison)
    assert is_poison(array, poison).all()
    if "float" in dtype:
        assert array.isnan().all()
    if dtype == "bool":
        assert (bits(array) > 1).all()
    array.view(-1)[-1] = 3
    assert is_poison(array, poison).sum() == array.numel() - 1


@pytest.mark.parametrize("dtype", FLOATS)
def test_poison_is_no_number_in_any_float_format(dtype):
    for seed in range(50):
        assert (
            poison_like(torch.zeros(8, dtype=torch_dtype(dtype)), draw_poison(np.random.default_rng(seed)))
            .isnan()
            .all()
        )


@pytest.mark.parametrize("dtype", FLOATS)
def test_poison_is_not_the_nan_that_arithmetic_makes(dtype):
    nan = store(torch.full((9,), math.nan), dtype)
    assert not any(is_poison(nan, draw_poison(np.random.default_rng(seed))).any() for seed in range(50))


def test_poison_is_secret():
    assert len({draw_poison(np.random.default_rng(seed)) for seed in range(50)}) == 50


def test_the_pattern_begins_anew_in_each_array():
    strided = torch.zeros(3, 16, dtype=torch.bfloat16)[:, :5]
    pattern = poison_like(strided[0], draw_poison(np.random.default_rng(0)))
    bits(strided).copy_(bits(pattern))
    assert all(identical(row.clone(), pattern) for row in strided)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_padding_that_gets_into_a_result_is_not_taken_for_an_output_never_written(dtype):
    rng = np.random.default_rng(0)
    padding = padding_bytes(rng, times=128).view(torch_dtype(dtype))
    assert padding.isnan().any()
    assert not any(is_poison(padding, draw_poison(rng)).any() for _ in range(50))
