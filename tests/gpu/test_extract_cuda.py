"""A CUDA kernel of the user's as a seed where there is a GPU: judged first, and a winner back behind its function."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from evokernel.errors import TaskError
from evokernel.export.patch import kernel_patch
from evokernel.records.candidate import Candidate
from evokernel.scaffold.extract.extract_project import extract_cuda_project
from evokernel.scaffold.project import Project
from evokernel.tasks import load_task

EXAMPLE = Path(__file__).parents[1] / "scaffold" / "extract" / "cuda_kernel"
USE = """
import sys; sys.path.insert(0, {folder!r})
import torch, launch
x, residual = torch.randn(2, 300, 2048, device="cuda", dtype=torch.bfloat16)
weight = torch.rand(2048, device="cuda", dtype=torch.bfloat16)
old = launch.launch(x, residual, weight, 1e-5)
launch.kernels = None  # the old text needs it
new = launch.launch(x, residual, weight)
for right, each, other in zip(launch.fused_add_rms_norm_torch(x, residual, weight), new, old):
    torch.testing.assert_close(each, right)
    torch.testing.assert_close(other, right)
"""


def extracted(folder: Path) -> Project:
    launch, out = folder / "launch.py", folder / "out"
    return extract_cuda_project(
        folder / "fused_add_rms_norm.cu",
        entry="fused_add_rms_norm_kernel",
        launch=str(launch),
        reference=f"{launch}:fused_add_rms_norm_torch",
        out=out,
    )


def test_the_judge_says_first_that_it_is_right(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    folder = Path(shutil.copytree(EXAMPLE, tmp_path / "ops"))
    task_file, seed, *_ = extracted(folder).files
    text = seed.read_text(encoding="utf-8")
    assert "The judge found it right on" in text
    kernel_patch(load_task(str(task_file)).on("cuda"), Candidate(text, "cuda")).apply()
    subprocess.run([sys.executable, "-c", USE.format(folder=str(folder))], check=True, timeout=120)


def test_a_wrong_kernel_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    folder = Path(shutil.copytree(EXAMPLE, tmp_path / "ops"))
    cu = folder / "fused_add_rms_norm.cu"
    cu.write_text(cu.read_text(encoding="utf-8").replace("rsqrtf(", "sqrtf("), encoding="utf-8")
    with pytest.raises(TaskError, match="`launch` is wrong on"):
        extracted(folder)
    assert list((folder / "out").iterdir()) == []
