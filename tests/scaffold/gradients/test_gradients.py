"""Forward and backward of `init --training`: what is saved, and equality with autograd."""

from pathlib import Path

import pytest

from evokernel.errors import TaskError
from evokernel.scaffold.gradients.joint_graph import trace_gradients
from evokernel.scaffold.gradients.saved_values import SaveChoice
from evokernel.scaffold.gradients.training_project import compare_gradients, training_text
from evokernel.scaffold.operation.dimensions import Layout, derive_layout
from evokernel.scaffold.operation.trial import state_apart
from evokernel.scaffold.operation.user_file import load_source
from evokernel.scaffold.operation.user_operation import UserOperation, find_subject

OPERATIONS = """
import torch
import torch.nn.functional as F
from torch import nn

def rmsnorm(x, gain):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * gain

def softmax(x):
    return torch.softmax(x, -1)

def cross_entropy(x, target):
    return F.cross_entropy(x, target)

def looked_up(ids, table):
    return F.embedding(ids, table) * 2

def two(x, y):
    return x + y, (x * y).sum(dim=1), (x > y)

class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(24)
    def forward(self, x):
        return self.norm(x)

def counted(ids):
    return (ids * 2).sum(dim=1)

def changed(x):
    y = x * 2
    y += 1
    return y
"""
INPUTS = {
    "rmsnorm": "x: 64x32, gain: 32",
    "softmax": "x: 64x32",
    "cross_entropy": "x: 64x32, target: int64[64] < 32",
    "looked_up": "ids: int64[64] < 100, table: 100x32",
    "two": "x: 64x32, y: 64x32",
    "Norm": "x: 8x24",
    "counted": "ids: int64[64x32] < 9",
    "changed": "x: 64x32",
}


def subject_of(folder: Path, name: str) -> tuple[UserOperation, Layout]:
    file = folder / "operations.py"
    file.write_text(OPERATIONS, encoding="utf-8")
    subject = state_apart(find_subject(file, name=name, inputs=INPUTS[name]))
    return subject, derive_layout(subject)


@pytest.mark.parametrize(
    ("name", "save", "saved", "backward"),
    [
        ("rmsnorm", "auto", ("rsqrt",), ("x", "gain", "rsqrt", "gradient 0")),
        ("rmsnorm", "inputs", (), ("x", "gain", "gradient 0")),
        ("rmsnorm", "all", ("rsqrt", "mul"), ("x", "gain", "rsqrt", "mul", "gradient 0")),
        ("softmax", "auto", (), ("result 0", "gradient 0")),
        ("softmax", "inputs", (), ("x", "gradient 0")),
        ("softmax", "outputs", (), ("result 0", "gradient 0")),
        ("cross_entropy", "auto", ("amax", "log"), ("x", "target", "amax", "log", "gradient 0")),
        ("looked_up", "auto", (), ("ids", "table", "gradient 0")),
        ("two", "auto", (), ("x", "y", "gradient 0", "gradient 1")),
        ("Norm", "auto", ("native_layer_norm_1", "native_layer_norm_2"), ()),
    ],
)
def test_forward_and_backward_equal_autograd_with_any_choice_of_saved_values(
    tmp_path: Path, name: str, save: SaveChoice, saved: tuple[str, ...], backward: tuple[str, ...]
) -> None:
    subject, layout = subject_of(tmp_path, name)
    file = tmp_path / "training.py"
    file.write_text(training_text(subject, layout, save=save, stem="f", out=tmp_path).text, encoding="utf-8")
    functions = load_source(file)
    compare_gradients(subject, layout, functions, stem="f")
    assert saved == functions.SAVED
    assert not backward or backward == functions.BACKWARD


def test_wrong_gradients_are_found(tmp_path: Path) -> None:
    subject, layout = subject_of(tmp_path, "rmsnorm")
    text = training_text(subject, layout, save="auto", stem="f", out=tmp_path).text
    file = tmp_path / "training.py"
    file.write_text(text.replace("-0.5", "-0.4999"), encoding="utf-8")
    with pytest.raises(TaskError, match="differ from those of autograd"):
        compare_gradients(subject, layout, load_source(file), stem="f")


@pytest.mark.parametrize(("name", "why"), [("counted", "has no gradients"), ("changed", "in place")])
def test_what_has_no_gradients_is_refused(tmp_path: Path, name: str, why: str) -> None:
    subject, layout = subject_of(tmp_path, name)
    with pytest.raises(TaskError, match=why):
        trace_gradients(subject, layout)
