"""What doctor says of GPUs, from the files that a driver shows."""

from pathlib import Path

import pytest

from evokernel.doctor.finding import FindingLevel
from evokernel.doctor.gpu import counters_finding, examine_gpu, profiler_finding, sanitizer_finding, torch_finding
from evokernel.evaluate.device.device_class import Machine
from tests.support.fakes import H100, PARTS_OF_A_GPU


def test_every_part_of_a_gpu_gets_a_line_whatever_is_missing(tmp_path: Path) -> None:
    found = {finding.name: finding for finding in examine_gpu(Machine(H100, triton=False), driver=tmp_path)}
    assert found["gpu"].found == "NVIDIA H100, compute capability 9.0, 80 GiB; driver 570.133.20"
    assert found["triton"].state is FindingLevel.WARNING
    assert found.keys() == PARTS_OF_A_GPU


def test_a_driver_without_a_visible_gpu_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "version").write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.133.20\n")
    (finding,) = examine_gpu(Machine(None, triton=True), driver=tmp_path)
    assert finding.state is FindingLevel.WARNING
    assert "loaded, but no GPU is visible" in finding.found


def test_no_gpu_is_one_good_line(tmp_path: Path) -> None:
    (finding,) = examine_gpu(Machine(None, triton=True), driver=tmp_path / "none")
    assert finding.state is FindingLevel.OK
    assert finding.found == "none found; C++ evolves on the CPU; Triton can be compiled, not run"


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("RmProfilingAdminOnly: 1\n", FindingLevel.WARNING),
        ("RmProfilingAdminOnly: 0\n", FindingLevel.OK),
        ("", FindingLevel.OK),
    ],
)
def test_counters(tmp_path: Path, text: str, state: FindingLevel) -> None:
    params = tmp_path / "params"
    params.write_text(f"EnableMSI: 1\n{text}")
    assert counters_finding(params).state is state
    assert "does not say" in counters_finding(tmp_path / "none").found


def test_instruments(tmp_path: Path) -> None:
    for finding in (profiler_finding, sanitizer_finding):
        assert finding(None).state is FindingLevel.WARNING
        assert str(tmp_path) in finding(tmp_path).found


def test_torch_builds() -> None:
    assert torch_finding("13.0").state is FindingLevel.OK
    assert torch_finding("").state is FindingLevel.WARNING
    assert torch_finding(None).state is FindingLevel.WARNING
