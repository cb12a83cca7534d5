"""The helper of the language `cuda` up to its launcher, which is a list here."""

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evokernel.cuda import Module
from evokernel.evaluate.inside.driver import cuda_module
from evokernel.evaluate.inside.driver.cuda_module import Geometry, Kernel
from evokernel.evaluate.inside.driver.nvrtc import target_of

ANY = Module("text")


class Noted:
    """A launcher that writes down what it is asked for; its kernels have the parameters that their name says."""

    def __init__(self) -> None:
        self.loaded: list[tuple[str, tuple[str, ...], str]] = []
        self.launches: list[tuple[Geometry, list[tuple[str, Any]]]] = []

    def load(self, source: str, options: Sequence[str], name: str) -> Any:
        self.loaded.append((source, tuple(options), name))
        return SimpleNamespace(parameter_bytes=[int(size) for size in name.split("_")[1:]])

    def launch(self, function: Any, geometry: Geometry, arguments: Sequence[tuple[str, Any]]) -> None:
        self.launches.append((geometry, list(arguments)))


@pytest.fixture(autouse=True)
def noted() -> Iterator[Noted]:
    Kernel.launcher = launcher = Noted()
    yield launcher
    Kernel.launcher = None


def test_options_and_macros_reach_the_compiler(noted: Noted):
    module = Module("text", options=("--use_fast_math", "--maxrregcount=64"), N=4, FAST=True, KIND="float", A=0.5)
    module.k[1, 1]()
    options = ("--use_fast_math", "--maxrregcount=64", "-DA=0.5", "-DFAST=1", "-DKIND=float", "-DN=4")
    assert noted.loaded == [("text", options, "k")]


@pytest.mark.parametrize("option", ["-I/etc", "--ptxas-options=-v", "--use_fast_math -I/etc", "--maxrregcount=", ""])
def test_other_options_are_refused(option: str):
    with pytest.raises(ValueError, match="not allowed"):
        Module("text", options=(option,))


@pytest.mark.parametrize(
    ("how", "geometry"),
    [
        ((7, 32), Geometry((7, 1, 1), (32, 1, 1), 0, 1)),
        (((7, 2), (8, 4, 2)), Geometry((7, 2, 1), (8, 4, 2), 0, 1)),
        (([7], [32], 1024), Geometry((7, 1, 1), (32, 1, 1), 1024, 1)),
        ((8, 32, 1024, 4), Geometry((8, 1, 1), (32, 1, 1), 1024, 4)),
    ],
)
def test_ways_to_say_how_to_launch(how: Any, geometry: Geometry, noted: Noted):
    ANY.k[how]()
    assert noted.launches == [(geometry, [])]


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (3, "k[grid, block]"),
        ((1, 2, 3, 4, 5), "k[grid, block]"),
        (((), 32), "1 to 3 numbers"),
        (((1, 2, 3, 4), 32), "1 to 3 numbers"),
        ((-1, 32), "1 to 3 numbers"),
        ((7, 32, 0, 2), "clusters of 2"),
        ((7, 32, 0, 0), "clusters of 0"),
        ((1.5, 32), "float"),
    ],
)
def test_bad_ways_are_refused(how: Any, words: str, noted: Noted):
    with pytest.raises((TypeError, ValueError)) as caught:
        ANY.k[how]()
    assert words in str(caught.value)
    assert not noted.launches


def test_an_empty_grid_launches_nothing(noted: Noted):
    ANY.k[0, 32]()
    assert not noted.launches


def test_values_take_the_size_of_their_parameter(noted: Noted):
    x = torch.empty(3)
    ANY.k_8_8_4_8_4_8_1_2[1, 1](x, None, 5, -5, 0.5, 0.25, True, 40000)
    kinds = [kind for kind, _ in noted.launches[0][1]]
    assert kinds == ["ptr", "ptr", "i32", "i64", "fp32", "fp64", "i8", "u16"]
    assert noted.launches[0][1][0][1] is x


@given(st.sampled_from([1, 2, 4, 8]), st.integers(-(1 << 65), 1 << 65))
def test_an_integer_fits_or_is_refused(size: int, number: int):
    Kernel.launcher = launcher = Noted()
    bits = 8 * size
    kernel = getattr(ANY, f"k_{size}")
    if -(1 << (bits - 1)) <= number < 1 << bits:
        kernel[1, 1](number)
        ((kind, passed),) = launcher.launches[0][1]
        assert passed == number
        assert kind == (f"i{bits}" if number < 1 << (bits - 1) else f"u{bits}")
    else:
        with pytest.raises(ValueError, match="does not fit"):
            kernel[1, 1](number)


@pytest.mark.parametrize(
    ("kernel", "values", "words"),
    [
        ("k_8_4", (1,), "takes 2 parameters and was given 1"),
        ("k_4", (torch.empty(1),), "kernel k_4, parameter 0 (4 bytes): a tensor needs a pointer"),
        ("k_8_4", (0, None), "parameter 1 (4 bytes): a tensor"),
        ("k_2", (0.5,), "float cannot be passed"),
        ("k_12", (5,), "int cannot be passed"),
        ("k_8", ("text",), "str cannot be passed"),
    ],
)
def test_what_does_not_fit_names_kernel_and_parameter(kernel: str, values: tuple[Any, ...], words: str):
    with pytest.raises(TypeError) as caught:
        getattr(ANY, kernel)[1, 1](*values)
    assert words in str(caught.value)


def test_private_names_are_no_kernels():
    with pytest.raises(AttributeError):
        _ = ANY._hidden


def test_targets():
    assert [target_of(capability) for capability in (80, 89, 90, 100, 120)] == [
        "sm_80",
        "sm_89",
        "sm_90a",
        "sm_100a",
        "sm_120a",
    ]


def test_a_thread_without_a_context_gets_that_of_the_device():
    current, retained = [None], list[int]()

    def call(name: str, context: Any, *device: int) -> None:
        if name == "cuCtxGetCurrent":
            context._obj.value = current[0]
        elif name == "cuDevicePrimaryCtxRetain":
            context._obj.value = 1000 + device[0]
            retained.extend(device)
        else:
            assert name == "cuCtxSetCurrent"
            current[0] = context.value

    for _ in range(3):
        cuda_module.have_context(2, call)
    assert (current, retained) == ([1002], [2])
