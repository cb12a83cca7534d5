"""`evokernel doctor` on this machine, and on one without a compiler."""

from pathlib import Path

import pytest

from tests.cli.conftest import Call


def test_every_part_is_looked_at(project: Path, call: Call) -> None:
    result = call("doctor")
    assert result.exit_code == 0, result.output
    for name in ("python", "packages", "torch", "compiler", "objdump", "sanitizers", "sandbox", "cores", "frequency"):
        assert name in result.output
    for part in ("islands:", "operators:", "archive:", "timed on core", "free for runs"):
        assert part in " ".join(result.output.split())


@pytest.mark.skipif(Path("/proc/driver/nvidia").exists(), reason="for machines without a GPU")
def test_without_a_gpu_there_is_one_line_and_nothing_is_missing(project: Path, call: Call) -> None:
    result = call("doctor")
    assert result.exit_code == 0, result.output
    assert "none found; C++ evolves on the CPU; Triton" in " ".join(result.output.split())
    assert "counters" not in result.output


def test_missing_compiler(project: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/no/such/compiler")
    result = call("doctor")
    assert result.exit_code == 1
    assert "is not a program on this machine" in " ".join(result.output.split())
    assert "1 missing" in result.output


def test_foreign_distribution_of_our_name(project: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    info = project / "site" / "evokernel-0.8.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: evokernel\nVersion: 0.8.0\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(info.parent))
    result = call("doctor")
    assert result.exit_code == 0
    assert "pip uninstall evokernel" in " ".join(result.output.split())


def test_an_address_without_a_model_is_refused(call: Call) -> None:
    result = call("doctor", "--api-base", "http://127.0.0.1:1/v1")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "add --model" in result.output
