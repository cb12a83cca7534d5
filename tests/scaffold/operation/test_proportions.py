"""Axes of several extents that stay in proportion, as packed weights beside their scales: one dimension has all."""

from pathlib import Path

import pytest

from evokernel.errors import TaskError
from evokernel.scaffold.operation.dimensions import derive_layout
from evokernel.scaffold.operation.user_operation import find_subject
from evokernel.scaffold.project import ProjectSettings, init_project
from evokernel.scaffold.workloads import dims_of

FILE = """
import torch


def levels(packed, absmax):
    codes = torch.stack((packed >> 4, packed & 15), -1).reshape(-1, 64)
    return (codes - 8) * absmax[:, None]


def product(x, packed, scales):
    codes = torch.stack((packed & 15, packed >> 4), -1).reshape(packed.shape[0], -1).to(x.dtype) - 8
    return x @ (codes * scales.repeat_interleave(32, 1)).T


def apart(x, y):
    return x.sum() + y
"""
LEVELS, PRODUCT = "packed: uint8[2048], absmax: 64", "x: 16x256, packed: uint8[24x128], scales: 24x8"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "quantised.py"
    path.write_text(FILE, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "inputs", "shapes"),
    [
        ("levels", LEVELS, {"packed": ("32 * N",), "absmax": ("N",)}),
        ("product", PRODUCT, {"x": ("M", "32 * K"), "packed": ("N", "16 * K"), "scales": ("N", "K")}),
    ],
)
def test_they_are_one_dimension(file: Path, name: str, inputs: str, shapes: dict[str, tuple[str, ...]]) -> None:
    assert derive_layout(find_subject(file, name=name, inputs=inputs)).inputs == shapes


def test_axes_that_need_no_proportion_vary_apart(file: Path) -> None:
    layout = derive_layout(find_subject(file, name="apart", inputs="x: 64, y: 8"))
    assert [(each.axes, each.units) for each in layout.dimensions] == [((("y", 0),), (1,)), ((("x", 0),), (1,))]


def test_sizes_of_a_users_own_are_told_by_any_of_these_axes(file: Path) -> None:
    layout = derive_layout(find_subject(file, name="product", inputs=PRODUCT))
    assert dims_of(layout, {"packed": (24, 64)})["K"] == dims_of(layout, {"x": (16, 128)})["K"] == 4
    with pytest.raises(TaskError, match=r"32 \* K"):
        dims_of(layout, {"x": (16, 100)})


def test_kernels_hold_for_all_of_them(file: Path) -> None:
    settings = ProjectSettings(devices=("cpu",))
    project = init_project(file, name="product", inputs=PRODUCT, out=file.parent, settings=settings)
    (seed,) = project.seeds
    assert not seed.why
    sizes = [each.dims for each in project.task.workloads["cpu"].search]
    assert len({each["K"] for each in sizes}) > 1
    assert all(int(bound) > 0 for bound in project.task.workloads["cpu"].probe["K"])
