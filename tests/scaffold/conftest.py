"""Operations as a user would write them, and a shortcut to `init`."""

from collections.abc import Callable
from pathlib import Path

import pytest

from evokernel.scaffold.project import Project, ProjectSettings, init_project

OPERATIONS = """
import torch
import torch.nn.functional as F
from torch import nn


def biased_gelu(x, w, b):
    return F.gelu(x @ w + b)


def rmsnorm(x, weight, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


def loss(x, y):
    return ((x - y) ** 2).mean()


def mean_length(x, y):
    return torch.hypot(x, y).mean()


class LinearRelu(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        return torch.relu(self.linear(x))


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(24)

    def forward(self, x):
        return self.norm(x)


def softmax(x):
    return torch.softmax(x, dim=-1)


def two(x, y):
    return x + y, (x * y).sum(dim=1)


def heads(x):
    rows, width = x.shape
    return x.view(rows, 4, width // 4).amax(1)


def bessel(x):
    return torch.special.i0e(x)


def shifted(scores):
    return scores + torch.arange(scores.shape[-1])


def smoothed(rows):
    return F.conv1d(rows.unsqueeze(1), torch.ones(1, 1, 3) / 3).squeeze(1)


def share(x, y):
    return x.exp() / (x.exp() + y.exp())


def factor(x):
    return torch.linalg.cholesky(torch.diag_embed(40 - x * x))


def ranked(x):
    return torch.sort(x, dim=-1, descending=True)[1].cumsum(-1) * 0.5


def counted(x):
    return torch.sort(x, dim=-1, descending=True)[1].cumsum(-1)


def chosen(x):
    return torch.sort(x, dim=-1, descending=True)[1] < 300


def blind(x):
    return torch.zeros_like(x)


def looked_up(table, index):
    return F.embedding(index, table) * 2


def masked(x, mask):
    return torch.softmax(x.masked_fill(~mask, float("-inf")), dim=-1)


def quantised(x, scale):
    q = (x / scale).round().clamp(-128, 127).to(torch.int8)
    return q, (q.abs() > 100).any(dim=1), q.sum(dim=1), q.amax(dim=1), (q + q) * q ^ 3


def widened(x, weight):
    return torch.softmax(x.float() * weight.float(), dim=-1)


def rounded(x):
    scale = x.abs().amax(dim=-1, keepdim=True).clamp(min=1e-6)
    return (x / scale).to(torch.float8_e4m3fn), scale


def quantised_bytes(x):
    scale = x.abs().amax(dim=-1, keepdim=True).clamp(min=1e-6) / 448
    return (x / scale).to(torch.float8_e4m3fn).view(torch.uint8), scale


def rooted(x):
    return -x.abs().sqrt() + (-x.abs() - 1).sqrt()


def product(a, b):
    return torch._int_mm(a, b)


def image(u, mean):
    return u / 255 - mean


def normed(x, weight):
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6) * weight.float()).to(x.dtype)
"""


@pytest.fixture
def operations(tmp_path: Path) -> Path:
    path = tmp_path / "operations.py"
    path.write_text(OPERATIONS, encoding="utf-8")
    return path


@pytest.fixture
def init(operations: Path, tmp_path: Path) -> Callable[..., Project]:
    def run(name: str, inputs: str, *devices: str) -> Project:
        """Write a project for a processor, or for these devices: Inductor's programs take their time."""
        settings = ProjectSettings(devices=devices or ("cpu",))
        return init_project(operations, name=name, inputs=inputs, out=tmp_path / "out", settings=settings)

    return run
