"""Operations that change their inputs: tensors of kernels that are read and written."""

from pathlib import Path

import pytest
import torch

from evokernel.errors import TaskError
from evokernel.scaffold.operation.trial import changes_apart
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

def appended(cache, rows, at):
    cache.index_copy_(0, at, rows)

class Counter(torch.nn.Module):
    def forward(self, x, y):
        x += y
        return y * x
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "ops.py"
    path.write_text(TEXT, encoding="utf-8")
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
