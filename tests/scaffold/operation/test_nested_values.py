"""Tensors inside dicts, lists, named tuples and dataclasses, as arguments and as results of an operation."""

from enum import Enum, Flag
from pathlib import Path
from typing import Any

import pytest
import torch

from evokernel.errors import TaskError
from evokernel.export.template_text import fixed_texts
from evokernel.scaffold.operation.nested_values import constant_text
from evokernel.scaffold.operation.trial import changes_apart, outputs_of, state_apart
from evokernel.scaffold.operation.user_operation import UserOperation, find_subject
from evokernel.scaffold.task_text import call_text

FILE = """
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

import torch
from torch import nn


class State(NamedTuple):
    place: torch.Tensor
    speed: torch.Tensor


@dataclass
class Batch:
    x: torch.Tensor
    masks: list
    scale: float = 2.0


class Mode(Enum):
    ADD = 1
    SCALE = 2


@dataclass(frozen=True)
class Config:
    eps: float
    mode: Mode = Mode.ADD
    widths: list = field(default_factory=list)


def configured(x, config: Config, shape: torch.Size, unused=Config(1.0)):
    y = x * config.widths[0] if config.mode is Mode.SCALE else x + config.widths[0]
    return y.sum(-1) + config.eps + shape.numel()


def step(state: State, dt=0.5) -> State:
    return State(state.place + dt * state.speed, state.speed * dt)


def loss(batch):
    return {"sum": (batch["x"] @ batch["w"]).sum(), "shape of": None, "rows": (batch["x"].sum(1), batch["x"].amax(1))}


def masked(batch: Batch):
    return batch.x * batch.masks[0] * batch.scale * batch.masks[1][0], None


def weighted(xs, weights: tuple):
    return sum(w * x for x, w in zip(xs, weights))


def kept(cache, x):
    cache["k"].add_(x)
    return {"k": cache["k"], "sum": x.sum(-1)}


class Memory(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells = nn.LSTM(3, 4)

    def forward(self, x):
        return self.cells(x)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "nested.py"
    path.write_text(FILE, encoding="utf-8")
    return path


def subject_of(file: Path, name: str, *inputs: Any) -> UserOperation:
    return changes_apart(state_apart(find_subject(file, name=name, example_inputs=inputs)))


def of_text(subject: UserOperation, inputs: dict[str, torch.Tensor]) -> Any:
    """Return what the text of a task computes."""
    source = __import__("sys").modules[subject.target.__module__]
    body = "\n    ".join(["def called():", *call_text(subject).split("\n    ")])
    names: dict[str, Any] = {"source": source, "torch": torch, **inputs}
    exec(body, names)
    return names["called"]()


X, W = torch.randn(5, 3), torch.randn(3, 2)


def test_arguments_are_taken_apart_and_results_named(file: Path) -> None:
    mask = torch.rand(5, 3) > 0.5
    own = find_subject(file, name="step", example_inputs=(X, X)).target.__globals__  # classes, as get_inputs() has them
    cases: list[tuple[str, tuple[Any, ...], set[str], int]] = [
        ("step", (own["State"](X, X + 1),), {"state_place", "state_speed"}, 2),
        ("loss", ({"x": X, "w": W, "n": 3},), {"batch_x", "batch_w"}, 3),
        ("masked", (own["Batch"](X, [mask, (X + 2,)], scale=3.0),), {"batch_x", "batch_masks_0", "batch_masks_1_0"}, 1),
        ("weighted", ([X, X + 1], (X[0], X[1])), {"xs_0", "xs_1", "weights_0", "weights_1"}, 1),
    ]
    for name, given, names, count in cases:
        subject = subject_of(file, name, *given)
        assert set(subject.inputs) == names
        made = subject.call(subject.inputs)
        flat = made if isinstance(made, tuple) else (made,)
        assert (
            len(flat) == count == len(outputs_of(subject, {key: tuple(t.shape) for key, t in subject.inputs.items()}))
        )
        told = of_text(subject, dict(subject.inputs))
        for one, other in zip(flat, told if isinstance(told, tuple) else (told,), strict=True):
            torch.testing.assert_close(one, other)


def test_arguments_that_hold_numbers_alone(file: Path) -> None:
    own = find_subject(file, name="step", example_inputs=(X, X)).target.__globals__
    config = own["Config"](0.5, own["Mode"].SCALE, [2])
    subject = subject_of(file, "configured", X, config, X.shape[1:])
    assert set(subject.inputs) == {"x"}
    told = "source.configured(x, source.Config(eps=0.5, mode=source.Mode.SCALE, widths=[2]), torch.Size((3,)), "
    assert told in call_text(subject)
    torch.testing.assert_close(of_text(subject, {"x": X}), 2 * X.sum(-1) + 3.5)


def test_layers_that_return_states_in_a_tuple_of_their_own(file: Path) -> None:
    subject = subject_of(file, "Memory", torch.randn(6, 2, 3))
    assert [*subject.returned.values()] == ["[0]", "[1][0]", "[1][1]"]
    assert [tuple(each.shape) for each in subject.call(subject.inputs)] == [(6, 2, 4), (1, 2, 4), (1, 2, 4)]


def test_what_is_changed_inside_a_dict(file: Path) -> None:
    subject = subject_of(file, "kept", {"k": X.clone()}, X)
    assert (subject.in_place, subject.returned) == (("cache_k",), {1: "['sum']"})
    new, total = subject.call({"cache_k": X, "x": X})
    assert torch.equal(new, 2 * X)
    assert torch.equal(total, X.sum(-1))
    assert "return cache_k, made['sum']" in call_text(subject)


def test_a_class_that_the_file_does_not_hold(file: Path) -> None:
    class Elsewhere(dict[str, torch.Tensor]):
        pass

    class Level(Enum):
        DEBUG = 1

    with pytest.raises(TaskError, match=r"'batch' is a Elsewhere.*import it there, or pass its parts in a tuple"):
        find_subject(file, name="loss", example_inputs=(Elsewhere(x=X),))
    with pytest.raises(TaskError, match=r"a class that the file does not hold"):
        find_subject(file, name="configured", example_inputs=(X, Level.DEBUG, (3,)))


def test_constants_as_python() -> None:
    class Part(Flag):
        NONE = 0
        LEFT = 1
        RIGHT = 2

    assert [constant_text("part", each) for each in (Part.LEFT, Part.LEFT | Part.RIGHT)] == [
        "source.Part.LEFT",
        "source.Part(3)",
    ]
    fixed = {
        "mode": "source.x",
        "part": Part.LEFT,
        "parts": (Part.LEFT,),
        "taken": 1,
        "eps": float("nan"),
        "axes": (1,),
    }
    assert fixed_texts(fixed, ["taken"]) == {"mode": "'source.x'", "axes": "(1,)"}
