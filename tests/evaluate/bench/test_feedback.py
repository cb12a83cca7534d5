"""What a kernel's author is told of arguments that do not fit."""

from pathlib import Path

import pytest

from evokernel.evaluate.bench.feedback import other_arguments
from evokernel.tasks import load_task

SEEDS = sorted(Path(load_task.__code__.co_filename).parent.glob("*/seeds/*.cpp"))


@pytest.mark.parametrize("seed", SEEDS, ids=lambda path: path.parts[-3])
def test_every_seed_fits_its_own_task(seed: Path) -> None:
    assert not other_arguments(seed.read_text(), load_task(seed.parts[-3]).on("cpu").signature)


@pytest.mark.parametrize(
    ("parameters", "fits"),
    [
        ("const float* x, int64_t R, int64_t C, float* y", True),
        ("const T *__restrict x, const long R, long C, T y[]", True),
        ("const float* x, const std::array<int, 2>& sizes, float* y", False),
        ("const double* x, int64_t R, int64_t C, double* y", False),
        ("const float* x, int64_t R, float eps, float* y", False),
        ("In x, int64_t R, int64_t C, Out y", True),
        ("In x, int64_t R, Out y", False),
        ("long x, int64_t R, int64_t C, Out y", False),
        ("", False),
    ],
)
def test_numbers_pointers_and_floating_types_are_compared(parameters: str, fits: bool) -> None:
    source = f'using T = float;\nextern "C" {{ void run({parameters}) {{}} }}\n'
    assert bool(other_arguments(source, load_task("softmax").on("cpu").signature)) != fits


@pytest.mark.parametrize(
    "source",
    [
        "def run(x): ...",
        'CODE = r"""extern "C" __global__ void run(float* x, int n) {}"""\ndef run(x, R, C, y): ...',
        """namespace { void run(float) {} }
        extern "C" void run(const float* x, int64_t R, int64_t C, float* y) { run(1.0f); }""",
        'extern "C" void run(',
        "",
    ],
)
def test_what_is_no_cpp_function_is_left_alone(source: str) -> None:
    assert not other_arguments(source, load_task("softmax").on("cpu").signature)
