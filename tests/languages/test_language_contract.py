import importlib.util

import pytest

from evokernel.errors import LanguageError
from evokernel.languages import make_language
from evokernel.languages.toolchain import run_plain
from evokernel.protocols import Language
from evokernel.testing.language import LanguageContract, LanguageSamples
from tests.support.nvrtc import needs_nvrtc
from tests.support.warm_compiler import WarmForge

CPP = """\
#include <cstdint>
constexpr int64_t STEP = 4;  // tune: 2 4 8
extern "C" void run(const float* x, int64_t N, float* y) {
    for (int64_t i = 0; i < N; i += STEP)
        for (int64_t j = i; j < i + STEP && j < N; ++j) y[j] = 2.0f * x[j];
}
"""


class TestCpp(LanguageContract):
    @pytest.fixture
    def language(self) -> Language:
        return make_language("cpp", run=run_plain)

    @pytest.fixture
    def samples(self) -> LanguageSamples:
        commented = CPP.replace("int64_t N,", "\n  int64_t /* elements */ N,").replace("2.0f", "// twice\n2.0f")
        return LanguageSamples(
            good=CPP,
            commented="// scales\n\n" + commented,
            retuned=CPP.replace("STEP = 4", "STEP = 8"),
            broken=CPP.replace("2.0f * x[j]", "2.0f * nowhere[j]"),
            mistake="nowhere",
            rejected=CPP.replace("run(", "walk("),
        )


TRITON = """\
import triton
import triton.language as tl

BLOCK = 256  # tune: 128 256 512


@triton.jit
def scale(x, y, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 2.0 * tl.load(x + i, mask=i < N), mask=i < N)


def run(x, N, y):
    scale[(triton.cdiv(N, BLOCK),)](x, y, N, BLOCK)
"""


@pytest.fixture(scope="module")
def forge() -> WarmForge:
    return WarmForge()


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")
class TestTriton(LanguageContract):
    @pytest.fixture
    def language(self, forge: WarmForge) -> Language:
        return make_language("triton", run=run_plain, forge=forge)

    @pytest.fixture
    def samples(self) -> LanguageSamples:
        commented = TRITON.replace("def run(x, N, y):", 'def run(\n    x, N,  # elements\n    y\n):\n    """Launch."""')
        return LanguageSamples(
            good=TRITON,
            commented='"""Scales."""\n\n# twice\n' + commented,
            retuned=TRITON.replace("BLOCK = 256", "BLOCK = 512"),
            broken=TRITON.replace("2.0 * ", "2.0 * nowhere * "),
            mistake="nowhere",
            rejected=TRITON.replace("def run(", "def walk("),
        )


CUDA = """\
from evokernel.cuda import Module

BLOCK = 256  # tune: 128 256 512

kernels = Module(
    r'''
extern "C" __global__ void __launch_bounds__(BLOCK) scale(const float* x, float* y, int n) {
    const int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}
''',
    BLOCK=BLOCK,
)


def run(x, N, y):
    kernels.scale[-(-N // BLOCK), BLOCK](x, y, N)
"""


@needs_nvrtc
class TestCuda(LanguageContract):
    @pytest.fixture
    def language(self, forge: WarmForge) -> Language:
        return make_language("cuda", run=run_plain, forge=forge)

    @pytest.fixture
    def samples(self) -> LanguageSamples:
        commented = CUDA.replace("def run(x, N, y):", 'def run(\n    x, N,  # elements\n    y\n):\n    """Launch."""')
        return LanguageSamples(
            good=CUDA,
            commented='"""Scales."""\n\n# twice\n' + commented,
            retuned=CUDA.replace("BLOCK = 256", "BLOCK = 512"),
            broken=CUDA.replace("2.0f * ", "2.0f * nowhere * "),
            mistake="nowhere",
            rejected=CUDA.replace("def run(", "def walk("),
        )


def test_unknown_language_lists_the_known():
    with pytest.raises(LanguageError, match=r"unknown language 'fortran': expected one of cpp"):
        make_language("fortran", run=run_plain)
