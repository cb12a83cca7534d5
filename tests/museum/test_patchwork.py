"""Short cuts that a task's distributions allow show on a patchwork of them; honest kernels stay right there."""

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from evokernel.evaluate.bench.admission_variants import AdmissionVariant
from evokernel.evaluate.numerics.correctness import judge_output
from evokernel.evaluate.numerics.hidden_shapes import probe_workloads
from evokernel.task import PATCHWORK, Scalar, Task
from evokernel.tasks import load_task
from tests.museum.exhibits import CHEATS, HONEST, Exhibit, read_exhibits

TASKS = ("layernorm", "layernorm_known", "softmax", "rmsnorm", "sum", "scan", "histogram")
RIGHT = [each for each in read_exhibits(HONEST / "cpp") if each.head["task"] in TASKS]
SHORT_CUTS = [
    each
    for each in read_exhibits(CHEATS / "cpp")
    if each.name in ("no_epsilon", "one_pass_by_sample", "no_maximum_by_prefix", "bytes_for_counts")
]
pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


def mistakes(kernel: Exhibit, folder: Path, distributions: tuple[str, ...]) -> list[str]:
    """Run a kernel as a judge would check it, on hidden and search shapes, and return what is wrong."""
    library = folder / f"{kernel.name}.so"
    command = ["g++", "-O3", "-std=c++20", "-shared", "-fPIC", str(kernel.path), "-o", str(library)]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    run, task, rng = ctypes.CDLL(str(library)).run, load_task(kernel.task).on("cpu"), np.random.default_rng(0)
    workloads = task.workloads["cpu"]
    cases = [
        AdmissionVariant.drawn(task, workload, distribution, rng, device="cpu")
        for workload in (*probe_workloads(workloads, rng), *workloads.search)
        for distribution in distributions
    ]
    found = [judge_output(case.expected, called(run, task, case)) for case in cases]
    return [each.feedback for each in found if each is not None]


def called(run: "ctypes._NamedFuncPointer", task: Task, case: AdmissionVariant) -> list[torch.Tensor]:
    outputs = {
        tensor.name: torch.full_like(array, 7)
        for tensor, array in zip(task.signature.outputs, case.native, strict=True)
    }
    tensors = {**case.inputs, **outputs}
    types: dict[str, Any] = {"int64": ctypes.c_int64, "float32": ctypes.c_float, "float64": ctypes.c_double}
    run(
        *(
            types[each.dtype](case.workload.dims[each.name])
            if isinstance(each, Scalar)
            else ctypes.c_void_p(tensors[each.name].data_ptr())
            for each in task.signature.arguments
        )
    )
    torch.set_flush_denormal(False)  # one kernel turns it on, and the tests after it would have it
    return list(outputs.values())


@pytest.mark.slow
@pytest.mark.parametrize("kernel", RIGHT, ids=lambda kernel: kernel.name)
def test_honest_kernels_are_right_on_a_patchwork(kernel: Exhibit, tmp_path: Path) -> None:
    assert mistakes(kernel, tmp_path, (PATCHWORK,) * 4) == []


@pytest.mark.parametrize("kernel", SHORT_CUTS, ids=lambda kernel: kernel.name)
def test_short_cuts_show_on_a_patchwork(kernel: Exhibit, tmp_path: Path) -> None:
    assert len(SHORT_CUTS) == 4
    assert mistakes(kernel, tmp_path, (PATCHWORK,)) != []
    seen = mistakes(kernel, tmp_path, load_task(kernel.task).declared)
    if kernel.name == "one_pass_by_sample":
        assert all("offset" in each for each in seen), "some rows of which are normal"
    else:
        assert seen == []


def test_a_look_at_some_rows_often_misses_those_far_from_zero(tmp_path: Path) -> None:
    (kernel,) = (each for each in read_exhibits(CHEATS / "cpp") if each.name == "one_pass_by_rows")
    assert len(mistakes(kernel, tmp_path, ("offset",) * 10)) >= 5
