"""`export --patch`: a winner behind the old signature, and the old text for all that it was not judged on."""

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from evokernel.export.export_kernel import NotExported
from evokernel.export.patch import KernelPatch, kernel_patch
from evokernel.records.candidate import Candidate
from evokernel.task import Task
from evokernel.tasks import load_task

TASK = """
from pathlib import Path

from evokernel.task import Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet

HERE = Path(__file__).parent
origin = {
    "file": HERE / "mine.py",
    "function": "scaled",
    "arguments": ("x", "w"),
    "constants": {"by": 2.0, "name": None},
}


def reference(x, w, **_):
    return (x.mT * w * 2.0).contiguous()


def _size(M, N):
    return Workload(f"{M}x{N}", {"M": M, "N": N})


task = Task(
    name="scaled",
    reference=reference,
    signature=Signature(
        (Tensor("x", ("M", "2 * N"), strides=(1, "M")), Tensor("w", ("M",))),
        (Scalar("M"), Scalar("N")),
        (Tensor("out", ("2 * N", "M"), role=Role.OUTPUT),),
    ),
    workloads={"cuda": WorkloadSet((_size(4, 6),), (_size(5, 7),), {"M": (1, 9), "N": (1, 9)})},
    flops="M * N",
)
"""
MINE = '''"""My kernels."""

import torch


def scaled(x, w, by=2.0, name=None):
    """Old."""
    CALLS.append("old")
    return (x.mT * w * by).contiguous()


CALLS = []
'''
WINNER = """import torch


def run(x, w, M, N, out):
    assert (M, 2 * N) == x.shape
    torch.mul(x.mT, w * 2, out=out)
"""


def patch_in(folder: Path, mine: str = MINE, winner: str = WINNER) -> KernelPatch:
    (folder / "mine.py").write_text(mine, encoding="utf-8")
    return kernel_patch(task_in(folder), Candidate(winner, "triton"))


def task_in(folder: Path, text: str = TASK) -> Task:
    (folder / "scaled_task.py").write_text(text, encoding="utf-8")
    return load_task(str(folder / "scaled_task.py")).on("cuda")


def imported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import the patched file, with the kernel for a processor."""
    evolved = folder / "scaled_evolved.py"
    text = evolved.read_text(encoding="utf-8").replace('_DEVICE = "cuda"', '_DEVICE = "cpu"')
    evolved.write_text(text.replace("_ALIGNMENT = 256", "_ALIGNMENT = 64"), encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    for name in ("mine", "scaled_evolved"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    importlib.invalidate_caches()
    return importlib.import_module("mine")


def test_the_kernel_answers_where_it_was_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patch_in(tmp_path).apply()
    mine = imported(tmp_path, monkeypatch)
    w = torch.rand(5)
    x = torch.rand(8, 5).mT
    torch.testing.assert_close(mine.scaled(x, w), x.mT * w * 2)
    assert mine.CALLS == []
    unlike: list[tuple[tuple[torch.Tensor, torch.Tensor], dict[str, Any]]] = [
        ((x, w), {"by": 3.0}),
        ((x, w), {"name": "other"}),
        ((x.contiguous(), w), {}),
        ((torch.rand(7, 5).mT, w), {}),
        ((x.double(), w.double()), {}),
        ((x, torch.rand(1)), {}),
        ((x, torch.rand(6)[1:]), {}),
    ]
    for arguments, named in unlike:
        mine.scaled(*arguments, **named)
    assert len(mine.CALLS) == len(unlike)


def test_the_diff_says_what_applying_writes(tmp_path: Path) -> None:
    patch = patch_in(tmp_path)
    assert (tmp_path / "mine.py").read_text(encoding="utf-8") == MINE
    (tmp_path / "my.patch").write_text(patch.diff, encoding="utf-8")
    subprocess.run(["git", "apply", "my.patch"], cwd=tmp_path, check=True)
    assert {path: path.read_text(encoding="utf-8") for path in patch.texts} == {
        path: after for path, (_, after) in patch.texts.items()
    }
    assert "if by == 2.0 and name is None and (made := scaled_evolved.computed(x, w)) is not None:" in patch.diff
    again = kernel_patch(task_in(tmp_path), Candidate(WINNER + "# newer\n", "triton"))
    assert [path.name for path in again.texts] == ["scaled_evolved.py"]
    with pytest.raises(NotExported, match="has changed meanwhile"):
        patch.apply()


def test_what_has_changed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotExported, match="takes x, w, by, and was extracted with by, name, w, x"):
        patch_in(tmp_path, MINE.replace(", name=None", ""))
    with pytest.raises(NotExported, match="defines no function scaled any more"):
        patch_in(tmp_path, MINE.replace("def scaled", "def other"))
    with pytest.raises(NotExported, match="`evokernel extract` wrote"):
        kernel_patch(task_in(tmp_path, TASK.replace("origin =", "other =")), Candidate(WINNER, "triton"))
