"""The machine code of all seeds for a GPU, with line numbers and without: nothing that a compiler makes is refused."""

import importlib.util
import re
import subprocess
from pathlib import Path

import pytest

from evokernel.evaluate.artifact_mode.cubin import inspect, refusal
from evokernel.evaluate.inside.driver.cubin_facts import atomic_kernels
from evokernel.evaluate.inside.process.bundle import unpack
from evokernel.evaluate.inside.untrusted.cubin_description import find_cuobjdump
from evokernel.protocols import Language
from evokernel.records.build import Built
from evokernel.tasks import builtin_tasks, load_task
from tests.museum.pipeline import language_for
from tests.support.nvrtc import needs_nvrtc

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")
SEEDS = [(name, kind) for name in builtin_tasks() for kind in ("triton", "cuda") if kind in load_task(name).seeds]
LINED = ("gemm", "softmax", "histogram")
"""Tasks whose seeds are compiled with line numbers, too: with tensor cores, with neither, with atomic operations."""
WITH_TENSOR_CORES = ("gemm", "gemm_deep", "gemm_skinny", "gemm_bias_gelu", "attention", "conv2d_bias_relu")
WITH_LINES = {
    "triton": "import triton\ntriton.knobs.compilation.disable_line_info = False\n",
    "cuda": """import sys
nvrtc = next(each for name, each in sys.modules.items() if name.endswith("inside.driver.nvrtc"))
usual = nvrtc.Nvrtc.compile
nvrtc.Nvrtc.compile = lambda self, text, options, *, target: usual(self, text, [*options, "-lineinfo"], target=target)
""",
}


@pytest.fixture(scope="module")
def languages() -> dict[str, Language]:
    return {kind: language_for(kind) for kind in WITH_LINES}


CASES = [(*seed, False) for seed in SEEDS] + [(*seed, True) for seed in SEEDS if seed[0] in LINED]


@pytest.mark.slow
@needs_nvrtc
@needs_triton
@pytest.mark.parametrize(
    ("name", "kind", "lines"), CASES, ids=[f"{name}-{kind}{'-lines' * lines}" for name, kind, lines in CASES]
)
def test_no_seed_is_refused(languages: dict[str, Language], name: str, kind: str, lines: bool, tmp_path: Path):
    task = load_task(name).on("cuda")
    source = task.seeds[kind].read_text()
    built = languages[kind].build(WITH_LINES[kind] + source if lines else source, task)
    assert isinstance(built, Built), built
    images = [image for file, image in unpack(built.artifact).items() if file.endswith(".cubin")]
    assert images
    assert all((b".debug_line" in image) == lines for image in images)
    assert [refusal(inspect(image), capability=90) for image in images] == [None] * len(images)
    assert [bool(atomic_kernels(image)) for image in images] == [told_atomic(image, tmp_path) for image in images]
    if kind == "triton":
        assert built.descriptor["spills"] == 0
        assert bool(built.descriptor["tensor_cores"]) == (name in WITH_TENSOR_CORES)


def told_atomic(image: bytes, folder: Path) -> bool:
    """Say whether the disassembler names an atomic operation in a cubin."""
    program = find_cuobjdump()
    assert program is not None
    path = folder / "told.cubin"
    path.write_bytes(image)
    told = subprocess.run([program, "-sass", path], check=True, capture_output=True, text=True).stdout
    return re.search(r"\s(?:ATOM[GS]?|REDG?|UTMAREDG|UBLKRED)\.", told) is not None
