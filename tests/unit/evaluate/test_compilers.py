"""Compilers that are not where the system keeps them."""

from pathlib import Path

import pytest

from evokernel.config import EvaluationConfig
from evokernel.evaluate.compilers import local_language, places_of
from evokernel.protocols import Built

SOURCE = '#include <cstdint>\nextern "C" void run(const float* x, int64_t N, float* y) { y[0] = x[0]; }\n'


def test_a_compiler_installed_elsewhere_works_in_the_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "opt" / "bin"
    folder.mkdir(parents=True)
    compiler = folder / "g++"
    compiler.write_text('#!/bin/sh\nexec /usr/bin/g++ "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    assert isinstance(local_language("cpp", EvaluationConfig()).build(SOURCE), Built)


def test_the_prefix_of_a_tool_is_opened_but_nobodys_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home" / "ada"))
    assert places_of("/opt/gcc/bin/g++") == (Path("/opt/gcc"),) * 2
    assert places_of(str(tmp_path / "home" / "ada" / "bin" / "g++"))[0] == tmp_path / "home" / "ada" / "bin"
    assert places_of("/usr/bin/g++") == ()
