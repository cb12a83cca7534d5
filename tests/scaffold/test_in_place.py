"""Operations that change their inputs: tensors of kernels that are read and written."""

from pathlib import Path

import numpy as np
import pytest
import torch

from evokernel.errors import TaskError
from evokernel.evaluate.numerics.inputs import draw
from evokernel.scaffold.operation.dimensions import derive_layout
from evokernel.scaffold.operation.index_bounds import find_bounds
from evokernel.scaffold.operation.trial import changes_apart, places_once
from evokernel.scaffold.operation.user_operation import find_subject
from evokernel.scaffold.project import ProjectSettings, init_project
from evokernel.task import Role

TEXT = """
import torch

def ema(average, x, decay: float = 0.9):
    average.mul_(decay).add_(x, alpha=1 - decay)
    return average, (x - average).abs().sum(-1)

def shifted(x, y):
    x.copy_(y + x[:1])

def cached(cache, sums, rows, at):
    sums.index_add_(0, at, rows + cache[0])
    cache.index_copy_(0, at[:1], rows[:1])
    return cache[0] + 1

def counted(sums, rows, at):
    sums.index_put_((at,), rows, accumulate=True)
    sums.index_add_(0, at, rows)

def appended(cache, rows, at):
    cache.index_copy_(0, at, rows)

def paged(cache, rows, at):
    block = cache.shape[1]
    cache[at // block, (at % block).long()] = rows

def normed(x, mean, var):
    return torch.nn.functional.batch_norm(x, mean, var, training=True)

class Counter(torch.nn.Module):
    def forward(self, x, y):
        x += y
        return y * x
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (folder := tmp_path / "own").mkdir()  # the sandbox reads it as another user
    (path := folder / "ops.py").write_text(TEXT, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "inputs", "copied"),
    [
        ("appended", "cache: 64x8, rows: 5x8, at: int64[5] < 64", []),
        ("cached", "cache: 64x8, sums: 64x8, rows: 5x8, at: int64[5] < 64", ["cache"]),
    ],
)
def test_where_only_some_elements_change_no_others_are_copied(
    file: Path, name: str, inputs: str, copied: list[str]
) -> None:
    subject = changes_apart(find_subject(file, name=name, inputs=inputs))
    project = init_project(file, name=name, inputs=inputs, out=file.parent, settings=ProjectSettings(devices=("cpu",)))
    (seed,) = project.seeds
    assert not seed.why
    text = seed.file.read_text()
    assert [each for each in subject.in_place if f"{each}_new.begin()" in text] == copied


def test_batch_norm_changes_its_running_statistics(file: Path) -> None:
    inputs = "x: 64x48, mean: 48, var: 48"
    assert changes_apart(find_subject(file, name="normed", inputs=inputs)).in_place == ("mean", "var")
    settings = ProjectSettings(devices=("cpu",))
    (seed,) = init_project(file, name="normed", inputs=inputs, out=file.parent, settings=settings).seeds
    assert not seed.why


def test_places_that_are_stored_at_come_once(file: Path) -> None:
    example = torch.randn(64, 8), torch.randn(5, 8), torch.arange(0, 50, 10)
    settings = ProjectSettings(devices=("cpu",))
    project = init_project(file, name="appended", example_inputs=example, out=file.parent, settings=settings)
    assert not project.unfit
    (length, _), (count,) = (tensor.shape for tensor in project.task.signature.inputs[::2])
    workloads = project.task.on("cpu").workloads["cpu"]
    assert workloads.probe[str(count)] == (1, length)
    for workload in workloads.holdout:
        places = draw(project.task.on("cpu"), workload, "normal", np.random.default_rng(0))["at"]
        assert places.unique().numel() == workload.sizes[str(count)]
    two = find_subject(file, name="cached", example_inputs=(example[0], *example))
    assert places_once(two) == ("at",)
    assert places_once(find_subject(file, name="counted", example_inputs=example)) == ()


def test_places_in_pages_come_once_and_stay_below_a_product_of_sizes(file: Path) -> None:
    example = torch.randn(16, 4, 8), torch.randn(5, 8), torch.arange(0, 50, 10)
    paged = changes_apart(find_subject(file, name="paged", example_inputs=example))
    layout = derive_layout(paged)
    assert find_bounds(paged, layout)["at"] == " * ".join(map(str, layout.inputs["cache"][:2]))
    assert places_once(paged) == ("at",)


def test_a_project_of_an_operation_in_place(file: Path) -> None:
    project = init_project(
        file, name="ema", inputs="average: 64x96, x: 64x96", out=file.parent, settings=ProjectSettings(devices=("cpu",))
    )
    assert not project.unfit
    (seed,) = project.seeds
    assert not seed.why
    assert "run(float* average, const float* x," in seed.entry
    assert [tensor.role for tensor in project.task.signature.inputs] == [Role.INOUT, Role.INPUT]
    assert [tensor.name for tensor in project.task.signature.outputs] == ["out"]
    average, x = torch.rand(3, 5), torch.rand(3, 5)
    before = average.clone()
    new, distance = project.task.reference(average=average, x=x, M=3, N=5)
    assert torch.equal(average, before)
    torch.testing.assert_close(new, before * 0.9 + x * 0.1)
    out = torch.zeros(3)
    (baseline,) = (project.task.on("cpu").baselines or {}).values()
    baseline({"average": average, "x": x, "M": 3, "N": 5}, (average, out))
    assert torch.equal(average, new)
    assert torch.equal(out, distance)
    assert "changes average in place" in " ".join(project.remarks)


@pytest.mark.parametrize(
    ("name", "in_place", "returned"),
    [("ema", ("average",), {1: "[1]"}), ("shifted", ("x",), {}), ("Counter", ("x",), {0: ""})],
)
def test_what_is_changed_and_what_is_returned(
    file: Path, name: str, in_place: tuple[str, ...], returned: dict[int, str]
) -> None:
    subject = changes_apart(find_subject(file, name=name, example_inputs=(torch.rand(4, 6), torch.rand(4, 6))))
    assert (subject.in_place, subject.returned) == (in_place, returned)
    given = {key: torch.rand(4, 6) for key in subject.inputs}
    kept = {key: each.clone() for key, each in given.items()}
    assert len(subject.call(given)) == len(in_place) + len(returned)
    assert all(torch.equal(given[key], kept[key]) for key in given)


def test_what_is_changed_must_lie_row_by_row(file: Path) -> None:
    subject = find_subject(file, name="shifted", example_inputs=(torch.rand(6, 4).T, torch.rand(4, 6)))
    with pytest.raises(TaskError, match=r"changes its input 'x' in place.*row by row.*\.contiguous\(\)"):
        changes_apart(subject)
