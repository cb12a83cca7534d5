"""The notebooks: what is committed can be read, and they run on a store that a real search has just made."""

import base64
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.e2e.kill_and_resume import write_config

ROOT = Path(__file__).parents[2]
TASK = Path(__file__).parent / "small_task.py"
NAMES = ("fitness", "lineage", "operator")
LARGEST_BYTES = 300 * 1024
SHORTER = {
    "evaluations=6": "evaluations=3",
    r"\"quick_ms\": 20, \"precise_ms\": 40, \"final_ms\": 60": r"\"quick_ms\": 4, \"precise_ms\": 8, \"final_ms\": 10",
}
"""What a notebook that searches says, and what the test says in its place."""


def read(path: Path) -> list[Any]:
    """Return the code cells of a notebook that is well-formed."""
    document = nbformat.read(path, as_version=4)
    nbformat.validate(document)
    return [cell for cell in document.cells if cell.cell_type == "code"]


def check(cells: list[Any]) -> None:
    """Every cell ran, in order and without an error; there are pictures, and none of them is large."""
    assert [cell.execution_count for cell in cells] == [*range(1, len(cells) + 1)]
    outputs = [output for cell in cells for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    said = [output.text for output in outputs if output.get("name") == "stderr"]
    assert not [text for text in said if not text.startswith("other searches")]  # as tests beside this one are
    pictures = [output.data["image/png"] for output in outputs if "image/png" in output.get("data", {})]
    sizes = [len(base64.b64decode(picture)) for picture in pictures]
    assert len(sizes) >= 2
    assert min(sizes) > 5000
    assert max(sizes) < LARGEST_BYTES


@pytest.mark.parametrize("name", NAMES)
def test_committed_outputs(name: str) -> None:
    path = ROOT / "notebooks" / f"{name}.ipynb"
    check(read(path))
    assert "/home/" not in path.read_text()
    assert "/tmp/" not in path.read_text()
    assert path.stat().st_size < LARGEST_BYTES


@pytest.mark.slow
def test_they_run_on_a_new_store(tmp_path: Path) -> None:
    store, ours = tmp_path / "notebooks.db", tmp_path / "ours"
    shutil.copytree(ROOT / "notebooks", ours)
    text = (ours / "operator.ipynb").read_text()
    for committed, shorter in SHORTER.items():
        assert committed in text, f"the notebook no longer says {committed}"
        text = text.replace(committed, shorter)
    (ours / "operator.ipynb").write_text(text)
    evolve = ["evolve", write_config(tmp_path, TASK), "--store", store, "--budget", "evaluations=6"]
    for arguments in (["-m", "evokernel", *evolve], [ours / "execute.py", store, tmp_path]):
        done = subprocess.run(
            [sys.executable, *map(str, arguments)], cwd=ROOT, capture_output=True, text=True, check=False, timeout=3600
        )
        assert done.returncode == 0, done.stderr
    for name in NAMES:
        cells = read(tmp_path / f"{name}.ipynb")
        check(cells)
        assert [cell.source for cell in cells] == [cell.source for cell in read(ours / f"{name}.ipynb")]
