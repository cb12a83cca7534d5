"""Compilers in the sandbox: those that are not where the system keeps them, and those that are Python."""

import errno
import importlib.util
import os
from pathlib import Path

import pytest

from evokernel.config.run import EvaluationConfig
from evokernel.evaluate.build.confined_compilers import local_language, places_of
from evokernel.records.build import BuildFailure, Built
from evokernel.task import Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet
from tests.support.engine import TASK
from tests.support.nvrtc import needs_nvrtc

SOURCE = '#include <cstdint>\nextern "C" void run(const float* x, int64_t N, float* y) { y[0] = x[0]; }\n'


TRITON = """
import triton
import triton.language as tl

@triton.jit
def scale(x, y, n, block: tl.constexpr):
    places = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(y + places, tl.load(x + places, mask=places < n) * 2, mask=places < n)

def run(x, n, y):
    scale[(triton.cdiv(n, 128),)](x, y, n, block=128)
"""
CUDA = '''
from evokernel.cuda import Module

m = Module(r"""
#include <cuda_bf16.h>
extern "C" __global__ void scale(const float* x, float* y, int n) {
    const int i = blockIdx.x * 128 + threadIdx.x;
    if (i < n) y[i] = x[i] * 2;
}
""")

def run(x, n, y):
    m.scale[-(-n // 128), 128](x, y, n)
'''
SCALE = Task(
    name="scale",
    reference=lambda x, **_: 2 * x,
    signature=Signature(
        inputs=(Tensor("x", ("N",)),), scalars=(Scalar("N"),), outputs=(Tensor("y", ("N",), role=Role.OUTPUT),)
    ),
    workloads={
        "cuda": WorkloadSet(
            search=(Workload("big", {"N": 8000}),), holdout=(Workload("odd", {"N": 901}),), probe={"N": (1, 999)}
        )
    },
    flops="N",
)


def test_a_source_that_speaks_of_a_full_disk_is_still_a_source_that_fails() -> None:
    built = local_language("cpp", EvaluationConfig()).build(f"#error {os.strerror(errno.ENOSPC)}\n", TASK)
    assert isinstance(built, BuildFailure)
    assert "No space left" in built.message


def test_a_compiler_installed_elsewhere_works_in_the_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "opt" / "bin"
    folder.mkdir(parents=True)
    compiler = folder / "g++"
    compiler.write_text('#!/bin/sh\nexec /usr/bin/g++ "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    assert isinstance(local_language("cpp", EvaluationConfig()).build(SOURCE, TASK), Built)


def test_the_prefix_of_a_tool_is_opened_but_nobodys_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home" / "ada"))
    assert places_of("/opt/gcc/bin/g++") == (Path("/opt/gcc"),) * 2
    assert places_of(str(tmp_path / "home" / "ada" / "bin" / "g++"))[0] == tmp_path / "home" / "ada" / "bin"
    assert places_of("/usr/bin/g++") == ()


@pytest.mark.skipif(not importlib.util.find_spec("triton"), reason="triton is not installed")
@pytest.mark.parametrize("sandbox", ["full", "landlock"])
def test_triton_compiles_in_warm_processes_of_the_sandbox(
    sandbox: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # compiled there, and not found
    language = local_language("triton", EvaluationConfig.model_validate({"sandbox": sandbox}))
    built = language.build(TRITON, SCALE)
    assert isinstance(built, Built), built
    crash = TRITON.replace("scale[(", "import ctypes; ctypes.string_at(0); scale[(")
    failed = language.build(crash, SCALE)
    assert isinstance(failed, BuildFailure)
    assert "SIGSEGV" in str(failed)
    assert len(list(tmp_path.glob("evokernel/builds/*"))) == 1
    again = language.build(TRITON, SCALE)
    assert isinstance(again, Built)
    assert (again.artifact, again.hash) == (built.artifact, built.hash)


@needs_nvrtc
@pytest.mark.parametrize("sandbox", ["full", "landlock"])
def test_cuda_compiles_in_warm_processes_of_the_sandbox(
    sandbox: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    language = local_language("cuda", EvaluationConfig.model_validate({"sandbox": sandbox}))
    built = language.build(CUDA, SCALE)
    assert isinstance(built, Built), built
    assert built.descriptor["registers"] > 0
