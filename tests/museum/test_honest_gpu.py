"""Honest kernels for a GPU: they get past the doors, are recorded, and are right on odd shapes without a GPU."""

import importlib.util
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evokernel.evaluate.bench.admission import admit
from evokernel.protocols import Language
from evokernel.task import Task
from evokernel.tasks import load_task
from tests.museum.emulated import emulated, interpreted
from tests.museum.exhibits import HONEST, TASKS, Exhibit, read_exhibits
from tests.museum.pipeline import Passed, hidden_shapes, language_for, pass_doors
from tests.support.due_outputs import Question, complaint
from tests.support.nvrtc import needs_nvrtc

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
TRITON, CUDA = read_exhibits(HONEST / "triton"), read_exhibits(HONEST / "cuda")
INTERPRETED = [kernel for kernel in TRITON if "cpu" not in kernel.head]
ON_PROCESSOR = [kernel for kernel in CUDA if "cpu" not in kernel.head]
MISTAKES = {
    "triton/sum_rows": ("start + at < C", "start + at < C - 1"),
    "triton/softmax_tiles": ("rows < R", "rows < R - 1"),
    "triton/gemm_split_k": ("range(SHARES)", "range(SHARES - 1)"),
    "cuda/sum_tree": ("        __syncthreads();\n", ""),
    "cuda/transpose_padded": ("    __syncthreads();\n", ""),
    "cuda/histogram_private": ("torch.zeros", "torch.empty"),
    "cuda/layernorm_welford": ("apart < 32", "apart < 16"),
}
"""By label, mistakes in some of them that must be seen."""


def task_of(kernel: Exhibit) -> Task:
    return load_task(kernel.task).on("cuda")


@pytest.fixture(scope="module")
def languages() -> Mapping[str, Language]:
    return {name: language_for(name) for name in ("triton", "cuda")}


@pytest.fixture(scope="module")
def answers() -> Mapping[str, list[tuple[Question, list[Any] | str]]]:
    """What those in Triton answer; one interpreter for all."""
    return interpreted({kernel.name: (kernel.source, task_of(kernel)) for kernel in INTERPRETED})


def wrong(answers: list[tuple[Question, list[Any] | str]]) -> list[str]:
    told = [left if isinstance(left, str) else complaint(question, left) for question, left in answers]
    return [text for text in told if text is not None]


def test_the_wing_is_large_and_every_kernel_says_what_it_is() -> None:
    assert len(TRITON) + len(CUDA) + len(read_exhibits(HONEST / "cpp")) >= 80
    assert len({kernel.name for kernel in TRITON}) == len(TRITON)
    assert len({kernel.name for kernel in CUDA}) == len(CUDA)
    for kernel in TRITON + CUDA:
        assert kernel.language == kernel.path.parent.name
        assert kernel.head.keys() <= {"title", "task", "cpu", "bits"}, kernel.label
        assert kernel.head["title"], kernel.label
        assert kernel.head.get("cpu", "no, PTX").startswith("no, "), kernel.label
    tasks = {path for path in TASKS.glob("*.py") if not path.stem.startswith("museum_")}
    on_gpu = {path.stem for path in tasks if "cuda" in load_task(str(path)).workloads}
    assert {kernel.head["task"] for kernel in TRITON + CUDA} == on_gpu


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({kernel.head["task"] for kernel in TRITON + CUDA}))
def test_tasks_are_fit_to_judge_kernels_for_a_gpu(name: str) -> None:
    admit(load_task(str(TASKS / f"{name}.py")).on("cuda"), "cuda", rng=np.random.default_rng(0))


@pytest.mark.slow
@needs_nvrtc
@needs_triton
@pytest.mark.parametrize("kernel", TRITON + CUDA, ids=lambda kernel: kernel.label)
def test_none_is_stopped_at_the_doors_and_all_are_recorded(languages: Mapping[str, Language], kernel: Exhibit) -> None:
    task = task_of(kernel)
    found = pass_doors(languages[kernel.language], kernel.source, task, hidden=hidden_shapes(task))
    assert isinstance(found, Passed), found
    assert found.recorded, found.checked.plans.unrecordable


@pytest.mark.slow
@needs_triton
@pytest.mark.parametrize("kernel", INTERPRETED, ids=lambda kernel: kernel.name)
def test_triton_is_right_in_the_interpreter(
    answers: Mapping[str, list[tuple[Question, list[Any] | str]]], kernel: Exhibit
) -> None:
    assert wrong(answers[kernel.name]) == []


@pytest.mark.slow
@needs_nvrtc
@needs_compiler
@pytest.mark.parametrize("kernel", ON_PROCESSOR, ids=lambda kernel: kernel.name)
def test_cuda_is_right_on_a_processor(languages: Mapping[str, Language], kernel: Exhibit, tmp_path: Path) -> None:
    assert wrong(list(emulated(languages["cuda"], kernel.source, task_of(kernel), folder=tmp_path))) == []


@pytest.mark.slow
@needs_nvrtc
@needs_triton
@needs_compiler
@pytest.mark.parametrize("label", MISTAKES)
def test_mistakes_are_seen(languages: Mapping[str, Language], label: str, tmp_path: Path) -> None:
    kernel = next(each for each in TRITON + CUDA if each.label == label)
    old, new = MISTAKES[label]
    assert old in kernel.source
    source = kernel.source.replace(old, new)
    if kernel.language == "triton":
        found = interpreted({label: (source, task_of(kernel))})[label]
    else:
        found = list(emulated(languages["cuda"], source, task_of(kernel), folder=tmp_path))
    assert wrong(found)
