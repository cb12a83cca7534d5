"""Roundings that grow in an operation, and the sizes at which they do not."""

from pathlib import Path

import pytest
import torch

from evokernel.scaffold.operation.dimensions import derive_layout
from evokernel.scaffold.operation.rounding_growth import rounding_growth
from evokernel.scaffold.operation.trial import changes_apart, state_apart
from evokernel.scaffold.operation.user_operation import find_subject
from evokernel.scaffold.workloads import least_sizes

NET = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        pairs = ((nn.Linear(24, 24), nn.{norm}, nn.ReLU6()) for _ in range(24))
        self.layers = nn.Sequential(*(layer for pair in pairs for layer in pair))

    def forward(self, x):
        return self.layers(x)


def get_inputs():
    return [torch.randn(64, 24)]
"""


def test_roundings_grow_where_numbers_cancel() -> None:
    inputs = {"x": torch.linspace(1.0, 2.0, 64, dtype=torch.float64)}
    assert rounding_growth(lambda given: given["x"] * 2, inputs) < 10
    assert rounding_growth(lambda given: (given["x"] + 1e6) - 1e6, inputs) > 1e5
    assert rounding_growth(lambda given: (given["x"] > 1.5, given["x"].view(8, 8)), inputs) == 0


@pytest.mark.parametrize(("norm", "least"), [("BatchNorm1d(24)", 8), ("LayerNorm(24)", 1)])
def test_norms_of_a_few_numbers_are_no_sizes_to_check(tmp_path: Path, norm: str, least: int) -> None:
    path = tmp_path / "net.py"
    path.write_text(NET.format(norm=norm), encoding="utf-8")
    subject = changes_apart(state_apart(find_subject(path, name="Net")))
    (found,) = least_sizes(subject, derive_layout(subject)).values()
    assert (found >= least) if least > 1 else (found == 1)
