from pathlib import Path

import pytest

from evokernel.errors import LanguageError
from evokernel.languages import make_language
from evokernel.languages.cpp.compilers import Compiler, cpu_digest, find_compiler, find_objdump
from evokernel.languages.toolchain import run_plain


def test_finds_the_system_compiler(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("CXX", raising=False)
    found = find_compiler()
    assert found.family in ("gcc", "clang")
    assert found.version[0].isdigit()
    assert Path(found.argv[0]).is_absolute()


def test_cxx_chooses_with_arguments(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CXX", "g++ -O2")
    assert find_compiler().argv[1:] == ("-O2",)


@pytest.mark.parametrize(("value", "message"), [("no-such-c++", "not a program"), ("true", "does not answer")])
def test_useless_cxx(monkeypatch: pytest.MonkeyPatch, value: str, message: str):
    monkeypatch.setenv("CXX", value)
    with pytest.raises(LanguageError, match=message):
        find_compiler()


def test_no_tools_say_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LanguageError, match="apt install g"):
        find_compiler()
    with pytest.raises(LanguageError, match="install binutils"):
        find_objdump()
    with pytest.raises(LanguageError, match="no C"):
        make_language("cpp", run=run_plain)


def test_clang_is_recognised_by_its_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    fake = tmp_path / "my-c++"
    fake.write_text("#!/bin/sh\necho 'Debian clang version 14.0.6'\n")
    fake.chmod(0o755)
    monkeypatch.setenv("CXX", str(fake))
    found = find_compiler()
    assert found == Compiler((str(fake),), "clang", "14.0.6")
    assert found.label == "clang++ 14.0.6"
    assert "-ferror-limit=3" in found.diagnostics()


def test_cpu_digest_is_stable():
    assert cpu_digest() == cpu_digest()
    assert len(cpu_digest()) == 8
