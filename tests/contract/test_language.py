"""What every language promises. A new language adds one class with its sources at the end."""

import importlib.util
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pytest

from evokernel.errors import LanguageError
from evokernel.languages import LANGUAGES, make_language
from evokernel.languages.toolchain import run_plain
from evokernel.protocols import Language
from evokernel.records.build import BuildFailure, Built
from evokernel.task import Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet
from tests.nvrtc import needs_nvrtc
from tests.warm_forge import WarmForge

SCALE = Signature(
    inputs=(Tensor("x", ("N",)),), scalars=(Scalar("N"),), outputs=(Tensor("y", ("N",), role=Role.OUTPUT),)
)
_SIZES = WorkloadSet(search=(Workload("8", {"N": 8}),), holdout=(Workload("9", {"N": 9}),), probe={"N": (1, 9)})
TASK = Task(name="scale", reference=lambda x, **_: 2 * x, signature=SCALE, workloads={"cpu": _SIZES}, flops="N")


@dataclass(frozen=True)
class Samples:
    """Sources of one language for y[i] = 2 x[i]."""

    good: str
    commented: str
    """The same with comments and another layout."""
    retuned: str
    """The same with another value of a tunable that matters to what is compiled."""
    broken: str
    """Does not compile."""
    mistake: str
    """A word that the message about `broken` must contain."""
    rejected: str
    """Refused by the static check."""


class LanguageContract:
    """Inherit, and give `language` and `samples`."""

    @pytest.fixture
    def language(self) -> Language:
        raise NotImplementedError

    @pytest.fixture
    def samples(self) -> Samples:
        raise NotImplementedError

    @pytest.fixture
    def built(self, language: Language, samples: Samples) -> Built:
        built = language.build(samples.good, TASK)
        assert isinstance(built, Built), built
        return built

    def test_says_what_it_is(self, language: Language):
        assert language.name in LANGUAGES
        assert language.suffix.startswith(".")
        assert 8 < len(language.environment) < 200
        assert "\n" not in language.environment

    def test_accepts_the_good_and_says_why_not(self, language: Language, samples: Samples):
        assert language.static_check(samples.good) is None
        assert language.static_check(samples.commented) is None
        assert language.static_check(samples.rejected)
        assert language.static_check("")
        assert language.static_check(samples.good + "\0")
        assert language.static_check(samples.good + "\ud800")

    def test_comments_and_layout_are_not_the_program(self, language: Language, samples: Samples):
        assert language.program_hash(samples.good) == language.program_hash(samples.commented)
        assert language.program_hash(samples.good) != language.program_hash(samples.retuned)

    def test_build_is_repeatable_and_ignores_comments(self, language: Language, samples: Samples, built: Built):
        again, commented = language.build(samples.good, TASK), language.build(samples.commented, TASK)
        assert isinstance(again, Built)
        assert isinstance(commented, Built)
        assert again.artifact == built.artifact
        assert commented.hash == again.hash == built.hash
        assert commented.descriptor == again.descriptor == built.descriptor

    def test_another_value_of_a_tunable_is_another_artifact(self, language: Language, samples: Samples, built: Built):
        retuned = language.build(samples.retuned, TASK)
        assert isinstance(retuned, Built)
        assert retuned.hash != built.hash

    def test_numbers_are_finite_floats(self, built: Built):
        for numbers in (built.descriptor, built.metrics):
            assert numbers
            assert all(isinstance(value, float) and 0 <= value < 1e12 for value in numbers.values())

    def test_failure_can_be_acted_on(self, language: Language, samples: Samples):
        failure = language.build(samples.broken, TASK)
        assert isinstance(failure, BuildFailure)
        assert not failure.timed_out
        assert samples.mistake in failure.message
        assert failure.message.count("\n") < 40
        assert "/usr/" not in failure.message
        assert "/tmp/" not in failure.message

    def test_builds_from_several_threads(self, language: Language, samples: Samples, built: Built):
        with ThreadPoolExecutor(4) as pool:
            made = pool.map(language.build, [samples.good] * 4, [TASK] * 4)
            hashes = {one.hash for one in made if isinstance(one, Built)}
        assert hashes == {built.hash}

    def test_checked_build(self, language: Language, samples: Samples):
        made = language.build_checked(samples.good, TASK)
        assert made is None or isinstance(made, bytes)
        assert isinstance(language.build_checked(samples.broken, TASK), BuildFailure | None)

    def test_guide_names_the_arguments_in_order(self, language: Language):
        signature = replace(SCALE, scalars=(Scalar("N"), Scalar("alpha", "float32")))
        text = language.guide(replace(TASK, signature=signature, workloads={}))
        entry = text[text.index("run(") :]
        places = [entry.index(name) for name in ("x", "N", "alpha", "y")]
        assert places == sorted(places)
        assert re.search(r"aligned\s+to\s+\d+\s+bytes", text)
        assert "tune:" in text

    def test_guide_says_what_integers_stay_below(self, language: Language):
        index = Tensor("index", ("N",), "int64", below="2 * N")
        signature = replace(SCALE, inputs=(*SCALE.inputs, index))
        (line,) = [
            line
            for line in language.guide(replace(TASK, signature=signature, workloads={})).splitlines()
            if line.startswith("- index[N]:")
        ]
        assert line.endswith("int64, input, all values from 0 to 2 * N - 1")


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
    def samples(self) -> Samples:
        commented = CPP.replace("int64_t N,", "\n  int64_t /* elements */ N,").replace("2.0f", "// twice\n2.0f")
        return Samples(
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
    def samples(self) -> Samples:
        commented = TRITON.replace("def run(x, N, y):", 'def run(\n    x, N,  # elements\n    y\n):\n    """Launch."""')
        return Samples(
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
    def samples(self) -> Samples:
        commented = CUDA.replace("def run(x, N, y):", 'def run(\n    x, N,  # elements\n    y\n):\n    """Launch."""')
        return Samples(
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
