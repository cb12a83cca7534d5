"""A function from anywhere becomes a file that stands alone, in a folder of its own."""

import math
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import evokernel
from evokernel.errors import TaskError
from evokernel.judging.user_function import function_project, inputs_text, task_file
from evokernel.scaffold.operation.function_text import standalone_text
from evokernel.scaffold.operation.user_file import load_source
from evokernel.tasks import load_task
from tests.judging.conftest import QUICK

SCALE = 3.0
DTYPE = torch.float32


def doubled(x: torch.Tensor) -> torch.Tensor:
    return 2 * x


def scaled(x: torch.Tensor, power: int = 2) -> torch.Tensor:
    def inner(y: torch.Tensor) -> torch.Tensor:
        return doubled(y).to(DTYPE)

    return inner(x) ** power * SCALE * math.pi


def halves(x: torch.Tensor) -> torch.Tensor:
    return x if x.numel() < 2 else halves(x[: len(x) // 2])


def summed(x: torch.Tensor) -> torch.Tensor:
    return sum(part**2 for part in x.unbind())


x = part = torch.ones(3)
"""Names of a script, as those of arguments and variables of `summed` and `doubled`."""


def made(gain: Any) -> Callable[..., Any]:
    def gained(x: torch.Tensor) -> torch.Tensor:
        return x * gain

    return gained


def reads(x: torch.Tensor) -> torch.Tensor:
    return x * float(STATE["gain"]().sum())


STATE = {"gain": lambda: torch.ones(3)}


@pytest.mark.parametrize("function", [scaled, halves, summed, made(0.5)])
def test_its_text_stands_alone(function: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "alone.py"
    file.write_text(standalone_text(function))
    again = getattr(load_source(file), function.__name__)
    x = torch.linspace(0, 1, 8)
    assert torch.equal(again(x), function(x))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (reads, "STATE is a dict, which cannot be written down: pass it as an argument, or put it into a .py file"),
        (made(torch.ones(3)), "gain is a Tensor, which cannot be written down"),
        (eval("lambda x: x"), "expected a function or a class with a name of its own, got a function"),
        ([doubled], "got a list; define one with `def`, or run `evokernel init`"),
        (torch.softmax, "softmax is a builtin_function_or_method"),
    ],
)
def test_what_has_no_text_is_refused_in_words(function: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=message):
        function_project(function, (), folder=tmp_path)
    assert [*tmp_path.iterdir()] == []


def test_a_function_typed_where_no_text_is_kept(tmp_path: Path) -> None:
    typed: dict[str, Any] = {"__name__": "__main__"}
    exec("def typed(x):\n    return x\n", typed)
    with pytest.raises(TaskError, match=r"the source text of typed is not known here; put it into a \.py file"):
        function_project(typed["typed"], (torch.ones(3),), folder=tmp_path)


def test_example_inputs_as_text() -> None:
    plain = (torch.ones(4, 8), torch.ones(3, dtype=torch.bfloat16), 2, -1.5, True, "sum", None)
    values = (*plain, torch.ones(8, 4).T, torch.tensor([3, 5]))
    names = "a, b, c, d, e, f, g, h, i"
    function: Any = eval(f"lambda {names}: a")
    expected = "a: 4x8, b: bf16[3], c: 2, d: -1.5, e: True, f: 'sum', g: None"
    expected += ", h: 4x8 in steps of (1, 4), i: int64[2] < 6"
    assert inputs_text(function, values) == expected
    with pytest.raises(TaskError, match="10 example inputs, but <lambda> takes a, b, c"):
        inputs_text(function, (*values, 1))
    with pytest.raises(TaskError, match=r"a tensor, a number, a text or None, or holds such in .*; got a object"):
        inputs_text(function, ([object()],))


@pytest.mark.slow
@pytest.mark.heavy
def test_the_same_function_has_one_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "squares.py").write_text(
        textwrap.dedent("""
        import torch

        def squared(x):
            return x * x
        """)
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import squares  # type: ignore[import-not-found]

    runs = tmp_path / "runs"
    spec = task_file(squares.squared, (torch.ones(64, 32),), folder=runs)
    assert load_task(spec).name == "squared"
    written = {file: file.stat().st_mtime_ns for file in runs.rglob("*")}
    assert task_file(squares.squared, (torch.zeros(64, 32),), folder=runs) == spec
    assert {file: file.stat().st_mtime_ns for file in runs.rglob("*")} == written
    with evokernel.Judge(squares.squared, torch.ones(64, 32), device="cpu", folder=runs, evaluation=QUICK) as judge:
        assert judge.spec == spec
        assert judge(Path(spec).with_name("squared.cpp").read_text()).ok
    config = function_project(squares.squared, (torch.ones(32, 32),), folder=runs, device="cpu")
    alone = load_task(str(next(config.parent.glob("*_task.py"))))
    assert alone.workloads.keys() == {"cpu"}
    assert [path.name for path in config.parent.glob("*.*") if "import triton" in path.read_text()] == []
    assert function_project(squares.squared, (torch.ones(32, 32),), folder=runs, device="cpu") == config


class Scaling(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, size: int = 32) -> None:
        super().__init__()
        self.gain = torch.nn.Parameter(torch.rand(size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.gain


@pytest.mark.parametrize(
    ("module", "why"),
    [
        (Scaling(16), "Scaling() makes another one"),
        (Scaling().eval(), "Scaling() makes another one"),
        (Scaling().half(), "Scaling() makes another one"),
        (torch.nn.Linear(3, 4), "Linear() raises TypeError"),
    ],
)
def test_a_module_that_cannot_be_made_again_says_what_to_pass(tmp_path: Path, module: Any, why: str) -> None:
    with pytest.raises(TaskError, match="pass a class in place of the module") as caught:
        function_project(module, (torch.ones(3),), folder=tmp_path)
    assert why in str(caught.value)
    assert f"class Mine({type(module).__name__})" in str(caught.value)


@pytest.mark.slow
def test_a_module_is_as_good_as_its_class(tmp_path: Path) -> None:
    given = (torch.ones(64, 32),)
    assert function_project(Scaling(), given, folder=tmp_path) == function_project(Scaling, given, folder=tmp_path)


@pytest.mark.slow
def test_an_unfit_function_leaves_no_config(tmp_path: Path) -> None:
    def nothing(x: torch.Tensor) -> torch.Tensor:
        return x * 0

    with pytest.raises(TaskError, match="nothing makes no task that could judge kernels"):
        function_project(nothing, (torch.ones(64, 32),), folder=tmp_path)
    assert [*tmp_path.rglob("*.yaml")] == []
