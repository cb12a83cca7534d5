"""Least sizes of hidden workloads: those from which an operation takes the parts of tensors that it was traced with."""

from pathlib import Path

import pytest

from evokernel.scaffold.inductor.trace_sizes import check_workloads
from evokernel.scaffold.operation.dimensions import derive_layout
from evokernel.scaffold.operation.user_operation import find_subject
from evokernel.scaffold.operation_analysis import analyse
from evokernel.scaffold.project import ProjectSettings, init_project
from evokernel.scaffold.project_seeds import check_seed

FILE = """
import torch


def turned(x):
    return torch.roll(x, 3, 0)


def last(x):
    return x[:, -16:].mean(1)


def first(x):
    return x[:, :12].amax(1)


def each_fourth(x):
    return x[::4].relu()


def behind(x, y):
    return torch.cat((x, y), 1).cumsum(1)
"""
MATRIX, PAIR = "x: 64x96", "x: 64x96, y: 64x32"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "fn.py"
    path.write_text(FILE)
    return path


@pytest.mark.parametrize(
    ("name", "inputs", "small", "enough"),
    [
        ("turned", MATRIX, {"M": 2, "N": 1}, {"M": 3, "N": 1}),
        ("last", MATRIX, {"N": 1, "K": 15}, {"N": 1, "K": 16}),
        ("first", MATRIX, {"N": 1, "K": 11}, {"N": 1, "K": 12}),
    ],
)
def test_parts_are_missing_where_a_tensor_is_smaller(
    file: Path, name: str, inputs: str, small: dict[str, int], enough: dict[str, int]
) -> None:
    subject = find_subject(file, name=name, inputs=inputs)
    _, analysis = analyse(subject, derive_layout(subject))
    assert analysis.traced is not None
    assert analysis.missing(small) > 0
    assert analysis.missing(enough) == 0


@pytest.mark.parametrize(("name", "inputs"), [("each_fourth", MATRIX), ("behind", PAIR)])
def test_nothing_is_missing_where_parts_follow_from_sizes(file: Path, name: str, inputs: str) -> None:
    subject = find_subject(file, name=name, inputs=inputs)
    layout, analysis = analyse(subject, derive_layout(subject))
    assert analysis.traced is not None
    least = dict.fromkeys(layout.example, 1)
    assert analysis.missing(least) == 0


@pytest.mark.slow
@pytest.mark.parametrize(("name", "low"), [("turned", (3, 1)), ("last", (1, 16)), ("first", (1, 12))])
def test_kernels_of_init_are_right_from_the_least_sizes_on(
    file: Path, tmp_path: Path, name: str, low: tuple[int, int]
) -> None:
    made = init_project(file, name=name, inputs=MATRIX, out=tmp_path, settings=ProjectSettings(devices=("cpu",)))
    (seed,) = made.seeds
    assert seed.why == ""
    task = made.task.on("cpu")
    assert tuple(ends[0] for ends in task.workloads["cpu"].probe.values()) == low
    check_seed(task, seed.file.read_text(), list(check_workloads(task)))


@pytest.mark.parametrize(("body", "low"), [("x.cumsum(-1) / max(n - 1, 1)", 2), ("x.cumsum(-1) + (n - 1)", 1)])
def test_a_number_that_is_another_at_the_least_size_raises_it(tmp_path: Path, body: str, low: int) -> None:
    path = tmp_path / "fn.py"
    path.write_text(f"def scaled(x):\n    n = x.shape[-1]\n    return {body}\n")
    made = init_project(path, name="scaled", inputs="x: 8x24", out=tmp_path, settings=ProjectSettings(devices=("cpu",)))
    (seed,) = made.seeds
    assert (seed.why, seed.remark) == ("", "")
    probe = made.task.workloads["cpu"].probe
    assert (probe["M"][0], probe["N"][0]) == (1, low)
