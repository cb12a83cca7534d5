"""Where the tools are looked for."""

from pathlib import Path

import pytest

from evokernel.evaluate.instruments.tools import _newest_first, counters_refused, find_tool

TOOL = "a-tool-that-nobody-has"


def place(folder: Path) -> Path:
    folder.mkdir(parents=True)
    path = folder / TOOL
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_a_tool_on_the_path_comes_before_one_of_a_toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "toolkit"))
    assert find_tool(TOOL) is None
    of_toolkit = place(tmp_path / "toolkit/bin")
    assert find_tool(TOOL) == of_toolkit
    on_path = place(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(on_path.parent))
    assert find_tool(TOOL) == on_path


def test_what_cannot_be_run_is_no_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    place(tmp_path / "bin").chmod(0o644)
    assert find_tool(TOOL) is None


def test_the_link_to_the_chosen_toolkit_comes_first_and_then_the_newest() -> None:
    names = ["cuda-12.9", "cuda-13.0", "cuda", "cuda-12.10", "2025.3.1", "2024.1"]
    ordered = [folder.name for folder in _newest_first(map(Path, names))]
    assert ordered == ["cuda", "2025.3.1", "2024.1", "cuda-13.0", "cuda-12.10", "cuda-12.9"]


@pytest.mark.parametrize(("text", "refused"), [("1", True), ("0", False)])
def test_the_driver_says_who_may_read_counters(tmp_path: Path, text: str, refused: bool) -> None:
    parameters = tmp_path / "params"
    assert not counters_refused(parameters)
    parameters.write_text(f"ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: {text}\n")
    assert counters_refused(parameters) is refused
