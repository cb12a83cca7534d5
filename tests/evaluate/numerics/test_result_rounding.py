"""Results in 16 bits that are cut off are told from all that is rounded to nearest, whatever came before."""

from dataclasses import replace

import pytest
import torch

from evokernel.evaluate.numerics.expected import ExpectedOutput
from evokernel.evaluate.numerics.result_rounding import is_cut_off
from evokernel.task import Role, Tensor

SEEDS = range(20)
KINDS = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
"""Types of 16 bits, and their unit roundoff."""


def due(high: torch.Tensor, dtype: torch.dtype) -> ExpectedOutput:
    tensor = Tensor("y", ("N",), str(dtype).removeprefix("torch."), Role.OUTPUT)
    return ExpectedOutput(tensor, high, high.to(dtype))


def numbers(seed: int, size: int = 4096) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def cut(high: torch.Tensor, dtype: torch.dtype, *, downwards: bool = False) -> torch.Tensor:
    nearest = high.to(dtype)
    beyond = nearest.double() > high if downwards else nearest.double().abs() > high.abs()
    below = torch.nextafter(nearest, torch.full_like(nearest, -torch.inf) if downwards else torch.zeros_like(nearest))
    return torch.where(beyond, below, nearest)


@pytest.mark.parametrize("downwards", [False, True])
@pytest.mark.parametrize("dtype", KINDS)
def test_what_is_cut_off_is_found_in_each_draw(dtype: torch.dtype, downwards: bool) -> None:
    for seed in SEEDS:
        high = numbers(seed)
        assert is_cut_off(due(high, dtype), cut(high, dtype, downwards=downwards))
        noisy = high * (1 + 2.0**-16 * numbers(seed + 100))  # the kernel's own arithmetic is off a little
        assert is_cut_off(due(high, dtype), cut(noisy, dtype, downwards=downwards))


@pytest.mark.parametrize("dtype", KINDS)
def test_what_is_rounded_is_right_however_rough_it_was_before(dtype: torch.dtype) -> None:
    unit = KINDS[dtype]
    for seed in SEEDS:
        high = numbers(seed)
        output, other = due(high, dtype), numbers(seed + 100)
        for error in (0.0, 0.5 * unit, -0.5 * unit, unit * other, 4 * unit * other):
            assert not is_cut_off(output, (high * (1 + error)).to(dtype)), error
        assert not is_cut_off(output, (high.to(dtype) * (1 + unit)).to(dtype))
        assert not is_cut_off(output, (high * (1 - 4 * unit)).to(dtype)), "sums that are too small, all of them"


@pytest.mark.parametrize("dtype", KINDS)
def test_few_numbers_equal_ones_and_those_that_16_bits_hold_say_nothing(dtype: torch.dtype) -> None:
    for high in (numbers(0, 200), numbers(0, 40).repeat(100), numbers(0).to(dtype).double(), numbers(0) * 1e-45):
        assert not is_cut_off(due(high, dtype), cut(high, dtype))
    flushed = torch.zeros(4096, dtype=dtype)
    assert not is_cut_off(due(numbers(0) * torch.finfo(dtype).tiny / 8, dtype), flushed)


def test_a_function_that_cuts_off_itself_is_computed_so() -> None:
    high = numbers(0)
    output = due(high, torch.bfloat16)
    cut_off = cut(high, torch.bfloat16)
    assert is_cut_off(output, cut_off)
    assert not is_cut_off(replace(output, native=cut_off), cut_off)


def test_types_with_more_bits_are_not_asked() -> None:
    high = numbers(0)
    nearest = high.float()
    cut_off = torch.where(nearest.abs().double() > high.abs(), torch.nextafter(nearest, torch.zeros(())), nearest)
    assert not is_cut_off(due(high, torch.float32), cut_off)
