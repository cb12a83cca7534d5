"""The `kernel.py` of an exported C++ kernel: how it calls the kernel, and what it says where that cannot be built."""

import platform
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from evokernel.export.files import KERNEL, export_files
from evokernel.export.reference import reference_files
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Mode
from evokernel.task import Workload, WorkloadSet
from evokernel.tasks import load_task
from tests.export.test_files import CONFIG, judgement
from tests.support.exports import exit_beside

pytestmark = pytest.mark.skipif(
    shutil.which("g++") is None or platform.machine() != "x86_64", reason="needs g++ for x86-64"
)
KERNEL_TEXT = """#include <cstdint>
#include <immintrin.h>
extern "C" void run(const float* x, int64_t R, int64_t C, float* y) {
    _mm_setcsr(_mm_getcsr() | 0xe040);  // flush to zero, both ways, and round towards 0
    for (int64_t i = 0; i < R * C; ++i) y[i] = x[i];
}
"""
CALLER = """
import struct, torch, kernel
def mode():
    one, least = float("1"), struct.unpack("d", bytes([1, *7 * [0]]))[0]
    return struct.pack("dd", least * one, one / 10)  # bytes: flushed numbers compare equal to 0; a tenth is rounded up
before = mode()
x = torch.rand(3, 5)
assert torch.equal(kernel.run(x), x)
assert mode() == before, (before, mode())
"""


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    found = judgement(Candidate(KERNEL_TEXT, "cpp"))
    found = replace(found, identity=replace(found.identity, environment="g++ 12 -O2 -shared -fPIC", mode=Mode.WORKER))
    sizes = Workload("small", {"R": 3, "C": 5})
    task = replace(load_task("softmax").on("cpu"), workloads={"cpu": WorkloadSet((sizes,), (sizes,), {})})
    for name, text in export_files(task, {KERNEL: found}, CONFIG, reference=reference_files(task.reference)).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_a_call_leaves_the_callers_mode_as_it_was(exported: Path) -> None:
    done = exit_beside(exported, CALLER, timeout_s=600)
    assert done.ok, done.stderr


def test_what_does_not_link_is_said_in_the_linkers_words(exported: Path) -> None:
    text = (exported / "kernel.py").read_text(encoding="utf-8")
    (exported / "kernel.py").write_text(text.replace("'-shared', ", ""), encoding="utf-8")
    done = exit_beside(exported, "import torch, kernel; kernel.run(torch.rand(3, 5))", timeout_s=600)
    assert "undefined reference to `main'" in done.stderr
    assert "FileNotFoundError" not in done.stderr, "the linker removed the file that it could not make"
