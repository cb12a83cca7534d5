"""Operations as files define them: partial functions, static methods, compiled ones, packages, defaults."""

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from evokernel.cli.init import command
from evokernel.errors import TaskError
from evokernel.scaffold.operation.dimensions import derive_layout
from evokernel.scaffold.operation.index_bounds import tied_by_indices
from evokernel.scaffold.operation.user_operation import find_subject
from evokernel.scaffold.task_text import call_text

HEAD = "import torch\nfrom functools import partial\n"
BODIES = {
    "partial": ("def _f(x, w, eps, flag): return x * w + eps\nscaled = partial(_f, eps=0.5, flag=True)\n", "scaled"),
    "lambda": ("scaled = lambda x, w=2.0: x * w\n", "scaled"),
    "static": ("class Ops:\n    @staticmethod\n    def scaled(x, w): return x * w\n", "Ops.scaled"),
    "compiled": ("@torch.compile\ndef scaled(x, w): return x * w\n", "scaled._torchdynamo_orig_callable"),
    "compiled module": (
        "class _M(torch.nn.Module):\n    def forward(self, x): return x * 2\nscaled = torch.compile(_M())\n",
        "scaled._orig_mod",
    ),
    "defaults": (
        "def scaled(x, act=torch.relu, w=3.0, dtype=torch.float32, **more): return act(x.to(dtype)) * w\n",
        "scaled",
    ),
}


def test_what_computes_with_the_others_is_the_operation(tmp_path: Path) -> None:
    path = tmp_path / "ops.py"
    body = "def half(x): return x / 2\ndef f(x):\n    return half(x) + 1\n"
    path.write_text(f"{body}def check(): return f(1)\ndef tries(x): print(f(x))\n", encoding="utf-8")
    with pytest.raises(TaskError, match="several: half, f, check, tries"):
        find_subject(path, inputs="x: 4")
    path.write_text(f"{body}def check(): return f(1)\n", encoding="utf-8")
    assert find_subject(path, inputs="x: 4").name == "f"


@pytest.mark.parametrize("kind", BODIES)
def test_what_a_file_may_define(tmp_path: Path, kind: str) -> None:
    body, name = BODIES[kind]
    path = tmp_path / "ops.py"
    path.write_text(HEAD + body, encoding="utf-8")
    subject = find_subject(path, inputs="x: 4x6, w: 6" if "w)" in body or "w, eps" in body else "x: 4x6")
    assert subject.name == name
    assert subject.call(subject.inputs).shape == (4, 6)
    derive_layout(subject)  # torch.compile would crash on shapes alone
    expected = {"partial": "eps=0.5, flag=True", "defaults": "source.scaled(x, w=3.0, dtype=torch.float32)"}
    assert expected.get(kind, name) in subject.construct + call_text(subject)


@pytest.mark.parametrize("made", ["{'x': torch.ones(3, 4)}", "torch.ones(3, 4)", "(torch.ones(3, 4),)"])
def test_example_inputs_in_a_dict_or_alone(tmp_path: Path, made: str) -> None:
    path = tmp_path / "ops.py"
    path.write_text(f"{HEAD}def double(x): return x * 2\ndef get_inputs(): return {made}\n", encoding="utf-8")
    assert find_subject(path).inputs["x"].shape == (3, 4)


def test_imports_with_dots_and_of_the_package_itself(tmp_path: Path) -> None:
    inner = tmp_path / "own_package" / "ops"
    inner.mkdir(parents=True)
    for folder in (inner.parent, inner):
        (folder / "__init__.py").write_text("", encoding="utf-8")
    (inner.parent / "base.py").write_text("SCALE = 3\n", encoding="utf-8")
    (inner / "helpers.py").write_text("from ..base import SCALE\ndef by(x): return x * SCALE\n", encoding="utf-8")
    text = "from .helpers import by\nfrom own_package.base import SCALE\ndef scaled(x): return by(x) + SCALE\n"
    (inner / "kernels.py").write_text(text, encoding="utf-8")
    subject = find_subject(inner / "kernels.py", inputs="x: 2x3")
    torch.testing.assert_close(subject.call({"x": torch.ones(2, 3)}), torch.full((2, 3), 6.0))
    (tmp_path / "beside.py").write_text("def by(x): return -x\n", encoding="utf-8")
    (tmp_path / "alone.py").write_text("from .beside import by\ndef negated(x): return by(x)\n", encoding="utf-8")
    assert find_subject(tmp_path / "alone.py", inputs="x: 2x3").call({"x": torch.ones(1)}).item() == -1


def test_a_name_behind_the_file(tmp_path: Path) -> None:
    path = tmp_path / "ops.py"
    path.write_text("def f(x): return x\ndef g(x, y): return x + y\n", encoding="utf-8")
    for words, said in (
        ([f"{path}:g"], "g needs an example of x, y"),
        ([f"{path}:h"], "no function or module 'h'"),
        ([f"{path}:g", "--name", "f"], "and --name f"),
        ([str(tmp_path / "no.py")], "is no file"),
    ):
        done = CliRunner().invoke(command, words)
        assert said in done.output + str(done.exception), words


def test_a_loop_over_an_axis_keeps_its_size(tmp_path: Path) -> None:
    path = tmp_path / "ops.py"
    text = (
        "import torch\ndef steps(x, w):\n    h = x[0]\n    for each in x: h = torch.tanh(each + h @ w)\n    return h\n"
    )
    path.write_text(text, encoding="utf-8")
    layout = derive_layout(find_subject(path, inputs="x: 6x8x12, w: 12x12"))
    assert layout.stepped == (("x", 0),)
    assert layout.inputs["x"] == (6, "M", "N")


@pytest.mark.parametrize(
    "body",
    [
        "    return torch.cat([each.exp() / each.sum() for each in x.split(4)])\n",  # a step for four elements
        "    h = [x[0]]\n    for i in range(1, len(x)): h.append(x[i] - sum(h[j] for j in range(i)))\n"
        "    return torch.stack(h)\n",  # more steps for each element than for the one before
    ],
)
def test_steps_of_other_kinds_keep_a_size_too(tmp_path: Path, body: str) -> None:
    path = tmp_path / "ops.py"
    path.write_text(f"import torch\ndef steps(x):\n{body}", encoding="utf-8")
    layout = derive_layout(find_subject(path, inputs="x: 24x32"))
    assert layout.stepped == (("x", 0),)


def test_a_table_that_computed_indices_fit_keeps_its_size(tmp_path: Path) -> None:
    path = tmp_path / "ops.py"
    path.write_text(
        "import torch\ndef biased(x, table): return x + table[torch.arange(x.shape[-1]).clamp(max=8)]\n",
        encoding="utf-8",
    )
    subject = find_subject(path, inputs="x: 32x64, table: 9")
    assert tied_by_indices(subject, derive_layout(subject)).inputs == {"x": ("M", "N"), "table": (9,)}


def test_sizes_that_computed_indices_tie(tmp_path: Path) -> None:
    path = tmp_path / "ops.py"
    path.write_text(
        "def pay(keys, load): return load.gather(-1, keys.argsort(dim=-1, stable=True))\n", encoding="utf-8"
    )
    subject = find_subject(path, inputs="keys: 32x64, load: 32x64")
    assert len(set(tied_by_indices(subject, derive_layout(subject)).inputs.values())) == 1
