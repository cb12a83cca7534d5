"""What `init` says where a file leaves something open."""

from pathlib import Path

import pytest

from evokernel.errors import TaskError
from evokernel.scaffold.dimensions import derive_layout
from evokernel.scaffold.user_operation import find_subject, parse_inputs


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 / 0\n", r":1 raised ZeroDivisionError"),
        ("def f(:\n", r":1 raised SyntaxError"),
        ("import nowhere_at_all\n", "nowhere_at_all"),
        ("x = 1\n", "defines no function and no nn.Module"),
        ("def f(x): return x\ndef g(x): return x\n", "several: f, g; say which one with --name"),
        ("def f(x, w): return x @ w\n", r'needs an example of x, w: pass --inputs "x: 1024x1024, w: 1024x1024"'),
        ("def f(*xs): return xs[0]\n", "wrap it in a function"),
        ("def f(x): return x\ndef get_inputs(): return [1, 2, 3]\n", "get_inputs.. returns 3 values"),
        ("def f(x): return x\ndef get_inputs(): raise OSError('gone')\n", "get_inputs.. raised OSError: gone"),
        ("import torch\nclass M(torch.nn.Module):\n    def __init__(self, n): ...\n", "get_init_inputs"),
        ("import torch\ndef f(x=torch.zeros(3, dtype=torch.int64)): return x\n", "'x' is torch.int64"),
    ],
)
def test_unclear_files(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "unclear.py"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TaskError, match=message):
        find_subject(path)


def test_unknown_names(operations: Path) -> None:
    with pytest.raises(TaskError, match="no function or module 'nothing'"):
        find_subject(operations, name="nothing")
    with pytest.raises(TaskError, match=r"names \['z'\]"):
        find_subject(operations, name="softmax", inputs="z: 3x3")


@pytest.mark.parametrize("text", ["x", "x 3x3", "x: 3x", "x: 0x3", "3: 3x3"])
def test_inputs_that_cannot_be_read(text: str) -> None:
    with pytest.raises(TaskError, match="--inputs"):
        parse_inputs(text)


def test_inputs_hold_shapes_and_constants() -> None:
    made = parse_inputs("x: 4x5, w: 7, eps: 1e-6, flag: True, mode: 'sum', axis: -1")
    assert tuple(made["x"].shape) == (4, 5)
    assert tuple(made["w"].shape) == (7,)
    assert {name: made[name] for name in ("eps", "flag", "mode", "axis")} == {
        "eps": 1e-6,
        "flag": True,
        "mode": "sum",
        "axis": -1,
    }


def test_example_from_annotations_and_defaults(tmp_path: Path) -> None:
    path = tmp_path / "noted.py"
    path.write_text('def f(x: "6x5", scale=2.0):\n    return x * scale\n', encoding="utf-8")
    subject = find_subject(path)
    assert tuple(subject.inputs["x"].shape) == (6, 5)
    assert subject.constants == {"scale": 2.0}


def test_reference_that_fails_on_its_example(operations: Path) -> None:
    with pytest.raises(TaskError, match="biased_gelu raised"):
        derive_layout(find_subject(operations, name="biased_gelu", inputs="x: 3x4, w: 5x6, b: 6"))


def test_outputs_of_another_type(operations: Path) -> None:
    with pytest.raises(TaskError, match=r"returns a tensor of torch\.int64"):
        derive_layout(find_subject(operations, name="whole", inputs="x: 3x4"))
