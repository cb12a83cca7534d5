"""Buffers of quantised layers and of causal masks, and the names of files."""

from pathlib import Path

import pytest
import torch

from evokernel.scaffold.operation.dimensions import derive_layout
from evokernel.scaffold.operation.index_bounds import ValueRange, find_bounds, find_signed
from evokernel.scaffold.operation.module_buffers import band_masks
from evokernel.scaffold.operation.user_operation import find_subject
from evokernel.scaffold.project import ProjectSettings, init_project, stem_of

FILE = """
import torch
from torch import nn


class QuantLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("bytes", torch.zeros(24, 16, dtype=torch.int8))
        self.register_buffer("packed", torch.zeros(4, 24, dtype=torch.int32))
        self.register_buffer("rows", torch.arange(16, dtype=torch.int32) // 4)
        self.register_buffer("zero", torch.tensor(3, dtype=torch.int8))

    def forward(self, x):
        return x @ self.bytes.to(x.dtype).t() + ((self.packed[self.rows] >> 4) & 15).to(x.dtype).sum(0) - self.zero


class CausalGQAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.triu(torch.ones(1, 12, 12, dtype=torch.bool), 1))

    def forward(self, x):
        count = x.shape[1]
        scores = (x @ x.mT).masked_fill(self.mask[:, :count, :count], float("-inf"))
        return scores.softmax(-1) @ x


def get_inputs():
    return [torch.randn(2, 9, 16)]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (path := tmp_path / "layers.py").write_text(FILE, encoding="utf-8")
    return path


def test_weights_in_bytes_and_packed_ones_are_inputs_of_all_bits(file: Path) -> None:
    subject = find_subject(file, name="QuantLinear")
    assert list(subject.inputs) == ["x", "bytes", "packed", "rows"]
    layout = derive_layout(subject)
    assert find_bounds(subject, layout) == {"rows": layout.inputs["packed"][0]}
    assert find_signed(subject, layout) == {"packed": ValueRange(-(2**31), 2**31)}


def test_a_causal_mask_is_computed(file: Path, tmp_path: Path) -> None:
    project = init_project(file, name="CausalGQAttention", out=tmp_path / "out", settings=ProjectSettings(("cpu",)))
    assert not project.unfit
    assert not project.seeds[0].why
    assert not [each for each in project.remarks if "training mode" in each]
    text = project.files[0].read_text(encoding="utf-8")
    assert '"mask": torch.ones((1, 12, 12), dtype=torch.bool, device=x.device).triu(1),' in text


@pytest.mark.parametrize("shape", [(7, 7), (1, 2, 5, 8), (8, 5)])
def test_masks_around_a_diagonal_are_known_by_their_text(shape: tuple[int, ...]) -> None:
    whole = torch.ones(shape, dtype=torch.bool)
    masks = [whole, ~whole, whole.tril(), whole.triu(2), whole.triu(-1).tril(2), ~whole.triu(-1).tril(1)]
    module = torch.nn.Module()
    for number, mask in enumerate([*masks, torch.rand(shape) < 0.5]):
        module.register_buffer(f"m{number}", mask)
    found = band_masks(module)
    assert list(found) == [f"m{number}" for number in range(len(masks))]
    for each, due in zip(found.values(), masks, strict=True):
        assert torch.equal(each.made(due.device), due)
        assert torch.equal(eval(each.text("'cpu'"), {"torch": torch}), due)


def test_abbreviations_in_a_name_stand_apart(file: Path) -> None:
    assert stem_of(find_subject(file, name="CausalGQAttention")) == "causal_gq_attention"
