"""Sides of images that are cut into patches: they vary in whole patches."""

from pathlib import Path

import pytest

from evokernel.scaffold.operation.dimensions import derive_layout
from evokernel.scaffold.operation.user_operation import find_subject

FILE = """
import torch
from torch import nn
import torch.nn.functional as F


class Embed(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Conv2d(3, 40, 16, stride=16)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


def columns(x):
    return F.unfold(x, 4, stride=4).transpose(1, 2)


def merged(x):
    return F.max_pool2d(x, 2, 2).flatten(2)


def kept(x):
    return F.max_pool2d(x, 2, 2)
"""


@pytest.mark.parametrize(("name", "unit"), [("Embed", 16), ("columns", 4), ("merged", 2)])
def test_patches_in_one_dimension_leave_both_sides_free(tmp_path: Path, name: str, unit: int) -> None:
    path = tmp_path / "net.py"
    path.write_text(FILE, encoding="utf-8")
    layout = derive_layout(find_subject(path, name=name, inputs="x: 2x3x64x96"))
    found = {axis: each for each in layout.dimensions for axis in each.axes}
    sides = [found["x", 2], found["x", 3]]
    assert [(side.units, side.example) for side in sides] == [((unit,), 64 // unit), ((unit,), 96 // unit)]
    assert " * ".join(side.name for side in sides) in layout.outputs[0]


def test_sides_that_stay_apart_vary_by_one(tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    path.write_text(FILE, encoding="utf-8")
    layout = derive_layout(find_subject(path, name="kept", inputs="x: 2x3x64x96"))
    assert {unit for each in layout.dimensions for unit in each.units} == {1}
