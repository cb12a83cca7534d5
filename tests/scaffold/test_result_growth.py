"""Sizes with which results grow beyond what fp32 holds: none above are planned."""

from pathlib import Path

import pytest
import torch

from evokernel.scaffold.distributions import restricted
from evokernel.scaffold.operation.dimensions import derive_layout
from evokernel.scaffold.operation.user_operation import find_subject
from evokernel.scaffold.project import Project, ProjectSettings, init_project
from evokernel.scaffold.result_growth import highest_sizes
from evokernel.task import Precision, Role, Signature, Task, Tensor, Workload, WorkloadSet

FILE = """
import torch


def solved(x, factor):
    return torch.linalg.solve_triangular(factor, x, upper=False)


def multiplied(x):
    return (3 * x).cumprod(-1)


def decayed(x, rates):
    state = x[0]
    for row in x[1:]:
        state = (4 * rates).exp() * state + row
    return state


def biased(x):
    n = x.shape[-1]
    closed = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
    return x[:, None] + torch.zeros(n, n, device=x.device).masked_fill(closed, torch.finfo(torch.float32).min)


def rooted(x):
    return x.sqrt()


def summed(x):
    return (1000 * x).pow(3).sum(-1)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "fn.py"
    path.write_text(FILE, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "inputs", "growing"),
    [
        ("solved", "x: 24x10, factor: 24x24", {"M"}),
        ("multiplied", "x: 8x12", {"N"}),
        ("decayed", "x: 16x12, rates: 12", set()),
        ("biased", "x: 8x12", set()),
        ("rooted", "x: 8x12", set()),
        ("summed", "x: 8x12", set()),
    ],
)
def test_a_size_is_bounded_where_results_grow_with_it(file: Path, name: str, inputs: str, growing: set[str]) -> None:
    subject = find_subject(file, name=name, inputs=inputs)
    layout = derive_layout(subject)
    least = dict.fromkeys(layout.example, 1)
    found = highest_sizes(subject, layout, {}, least=least, most=dict.fromkeys(least, 1024), is_cheap=lambda _: True)
    assert found.keys() == growing
    assert all(8 <= size < 1024 for size in found.values())


def _solved(file: Path, rows: int) -> Project:
    inputs = f"x: {rows}x10, factor: {rows}x{rows}"
    return init_project(file, name="solved", inputs=inputs, out=file.parent, settings=ProjectSettings(devices=("cpu",)))


def test_no_size_is_planned_at_which_results_are_no_numbers(file: Path) -> None:
    made = _solved(file, 24)
    assert not any("grow beyond" in remark for remark in made.remarks)
    workloads = made.task.workloads["cpu"]
    highest = max(each.dims["M"] for each in (*workloads.search, *workloads.holdout))
    inputs = {name: torch.randn(shape) for name, shape in (("x", (highest, 10)), ("factor", (highest, highest)))}
    assert made.task.reference(**inputs).isfinite().all()
    assert "wide" not in made.task.distributions  # which results overflow on the way depends on the order of operations
    assert any("distribution wide" in remark for remark in made.remarks)


def test_a_users_size_at_which_results_are_no_numbers_is_said(file: Path) -> None:
    made = _solved(file, 300)
    (said,) = (remark for remark in made.remarks if "grow beyond" in remark)
    assert "torch.eye" in said
    workloads = made.task.workloads["cpu"]
    assert workloads.search[0].dims["M"] == 300
    assert max(each.dims["M"] for each in (*workloads.search[1:], *workloads.holdout)) < 150
    assert int(workloads.probe["M"][1]) < 150


def _overflowing(x: torch.Tensor, **_: int) -> torch.Tensor:
    return x * 3e38 - x * 3e38 if x.shape[0] == 60 else x * 2


def test_a_distribution_that_overflows_at_the_greatest_size_alone_is_left_out_by_every_draw() -> None:
    sizes = (Workload("60", {"N": 60}),)
    task = Task(
        name="overflowing",
        reference=_overflowing,
        signature=Signature((Tensor("x", ("N",)),), (), (Tensor("y", ("N",), role=Role.OUTPUT),)),
        workloads={"cpu": WorkloadSet(search=sizes, holdout=sizes, probe={"N": (1, 60)})},
        flops="N",
        precision=Precision(),
        distributions=("normal", "integers01", "wide"),
    )
    assert {restricted(task) for _ in range(20)} == {("integers01",)}
