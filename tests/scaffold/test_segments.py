"""Integers in order: a task keeps to them where the example has them."""

from pathlib import Path

import numpy as np
import pytest
import torch

from evokernel.evaluate.numerics.inputs import draw
from evokernel.scaffold.operation.dimensions import derive_layout
from evokernel.scaffold.operation.index_bounds import find_bounds, find_lengths, find_segments
from evokernel.scaffold.operation.user_operation import find_subject
from evokernel.scaffold.project import ProjectSettings, init_project

SUMS = """
import torch


def sums(x, ids):
    return torch.zeros(9, x.shape[1], device=x.device).index_add(0, ids, x)


def get_inputs():
    return [torch.arange(96.0).reshape(24, 4), torch.arange(24) // 3]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sums.py"
    path.write_text(SUMS, encoding="utf-8")
    return path


def test_segments_stay_in_order_as_in_the_example(file: Path, tmp_path: Path) -> None:
    settings = ProjectSettings(devices=("cpu",))
    project = init_project(file, out=tmp_path / "out", settings=settings)
    assert not project.unfit
    assert not project.seeds[0].why
    assert "the numbers in ids are in order in your example, and kernels may rely on it" in project.remarks
    task = project.task.on("cpu")
    for seed, workload in enumerate(task.workloads["cpu"].search):
        ids = draw(task, workload, "normal", np.random.default_rng(seed))["ids"]
        assert (ids.diff() >= 0).all()
        assert 0 <= int(ids.min()) < int(ids.max()) < 9


def test_numbers_keep_the_sign_of_the_example_where_the_function_needs_it(tmp_path: Path) -> None:
    path = tmp_path / "scaled.py"
    made = "def get_inputs(): return [torch.arange(-9.0, 55.0).reshape(16, 4), torch.linspace(0.5, 2.0, 16)]\n"
    path.write_text(f"import torch\ndef scaled(x, v): return x / v.sqrt()[:, None]\n{made}", encoding="utf-8")
    project = init_project(path, out=tmp_path / "out", settings=ProjectSettings(devices=("cpu",)))
    assert not project.unfit
    assert not project.seeds[0].why
    assert "the numbers in v have one sign in your example, and kernels may rely on it" in project.remarks
    task = project.task.on("cpu")
    drawn = draw(task, task.workloads["cpu"].search[0], "wide", np.random.default_rng(0))
    assert 0.5 <= drawn["v"].min() < drawn["v"].max() <= 2.0
    assert drawn["x"].min() < 0


@pytest.mark.slow
def test_many_inputs_of_one_sign_share_a_generator(tmp_path: Path) -> None:
    (path := tmp_path / "scaled.py").write_text(
        "import torch\ndef scaled(x, a, b, c, d): return x / a.sqrt() / b.sqrt() / c.sqrt() / d.sqrt()\n"
        "def get_inputs(): return [torch.randn(16, 24), *(torch.linspace(0.5, 2.0, 24) for _ in range(4))]\n",
        encoding="utf-8",
    )
    project = init_project(path, out=tmp_path / "out", settings=ProjectSettings(devices=("cpu",)))
    assert not project.unfit
    assert not project.seeds[0].why
    assert "the numbers in a and b and c and 1 more have one sign" in project.remarks[0]
    task = project.task.on("cpu")
    assert [len(tensors) for tensors in task.signature.generators.values()] == [4]
    drawn = draw(task, task.workloads["cpu"].search[0], "wide", np.random.default_rng(0))
    assert all(0.5 <= drawn[name].min() < drawn[name].max() <= 2.0 for name in "abcd")
    assert not torch.equal(drawn["a"], drawn["b"])


@pytest.mark.parametrize(
    ("numbers", "found"),
    [
        (torch.tensor([0, 0, 1, 1, 1, 5, 7, 7]), True),
        (torch.tensor([0, 0, 1, 1, 5, 7, 7]), False),  # few are in order by chance
        (torch.tensor([0, 0, 1, 1, 5, 1, 7, 7]), False),
        (torch.arange(8), False),
        (torch.zeros(8, dtype=torch.int64), False),
        (torch.tensor([0, 0, 1, 1, 1, 2, 2, 4]), False),  # offsets into the columns
    ],
)
def test_segments_are_many_in_order_with_equal_ones(file: Path, numbers: torch.Tensor, *, found: bool) -> None:
    subject = find_subject(file, example_inputs=[torch.ones(len(numbers), 4), numbers])
    layout = derive_layout(subject)
    assert find_segments(subject, layout, find_bounds(subject, layout)) == ({"ids": False} if found else {})


RAGGED = """
import torch


def ragged(x, lengths):
    return torch.segment_reduce(x, "mean", lengths=lengths, axis=0)
"""


@pytest.mark.slow
def test_lengths_add_up_to_the_rows_as_in_the_example(tmp_path: Path) -> None:
    path = tmp_path / "ragged.py"
    path.write_text(RAGGED, encoding="utf-8")
    example = [torch.randn(24, 4), torch.tensor([3, 9, 1, 2, 5, 4])]
    settings = ProjectSettings(devices=("cpu",))
    project = init_project(path, out=tmp_path / "out", example_inputs=example, settings=settings)
    assert not project.unfit
    assert not project.seeds[0].why
    task = project.task.on("cpu")
    for seed, workload in enumerate(task.workloads["cpu"].search):
        inputs = draw(task, workload, "normal", np.random.default_rng(seed))
        assert int(inputs["lengths"].sum()) == len(inputs["x"])
        assert (inputs["lengths"] >= 0).all()


@pytest.mark.parametrize(
    ("body", "numbers", "found"),
    [
        ('torch.segment_reduce(x, "sum", lengths=n)', [3, 9, 1, 11], True),
        ('torch.segment_reduce(x, "sum", lengths=n)', [3, 9, 1, 2, 9], True),
        ("x.mT.repeat_interleave(n, 0, output_size=x.shape[0])", [3, 9, 1, 11], True),
        ("x[n]", [3, 9, 1, 11], False),  # indices, whose sum is that of the rows by chance
    ],
)
def test_lengths_are_what_the_reference_takes_no_others_of(
    tmp_path: Path, body: str, numbers: list[int], found: bool
) -> None:
    path = tmp_path / "ragged.py"
    path.write_text(f"import torch\n\n\ndef ragged(x, n):\n    return {body}\n", encoding="utf-8")
    subject = find_subject(path, example_inputs=[torch.ones(24, 4), torch.tensor(numbers)])
    layout = derive_layout(subject)
    assert find_lengths(subject, layout) == ({"n": layout.inputs["x"][0]} if found else {})


def test_lengths_may_add_up_to_a_number_that_the_function_declares(tmp_path: Path) -> None:
    path = tmp_path / "repeated.py"
    text = "import torch\n\n\ndef repeated(x, n):\n    return x.repeat_interleave(n, 0, output_size=24)\n"
    path.write_text(text, encoding="utf-8")
    subject = find_subject(path, example_inputs=[torch.ones(4, 24), torch.tensor([3, 9, 1, 11])])
    layout = derive_layout(subject)
    assert layout.outputs[0][0] == 24
    assert find_lengths(subject, layout) == {"n": 24}


def test_rows_at_which_bags_begin_start_with_the_first(tmp_path: Path) -> None:
    path = tmp_path / "bags.py"
    lines = [
        "import torch",
        "import torch.nn.functional as F",
        "def bags(table, rows, begins): return F.embedding_bag(rows, table, begins, mode='sum')",
        "def get_inputs(): return [torch.randn(30, 8), torch.randint(30, (24,)), torch.arange(0, 24, 4)]",
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    project = init_project(path, out=tmp_path / "out", settings=ProjectSettings(devices=("cpu",)))
    assert not project.unfit
    assert not project.seeds[0].why
    task = project.task.on("cpu")
    workload = task.workloads["cpu"].search[0]
    inputs = draw(task, workload, "normal", np.random.default_rng(0))
    assert inputs["begins"][0] == 0
    assert (inputs["begins"].diff() >= 0).all()
    assert int(inputs["begins"].max()) <= len(inputs["rows"])


def test_variances_of_a_batch_norm_in_evaluation_are_above_0(tmp_path: Path) -> None:
    path = tmp_path / "normed.py"
    lines = [
        "import torch",
        "class Normed(torch.nn.Module):",
        "    def __init__(self):",
        "        super().__init__()",
        "        self.norm = torch.nn.BatchNorm1d(12)",
        "        self.eval()",
        "    def forward(self, x): return self.norm(x).amax(-1)",
        "def get_inputs(): return [torch.randn(4, 12, 9)]",
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    project = init_project(path, out=tmp_path / "out", settings=ProjectSettings(devices=("cpu",)))
    assert not project.unfit
    assert not project.seeds[0].why
    task = project.task.on("cpu")
    inputs = draw(task, task.workloads["cpu"].search[0], "wide", np.random.default_rng(0))
    assert 0.5 <= inputs["norm_running_var"].min() < inputs["norm_running_var"].max() <= 2.0
