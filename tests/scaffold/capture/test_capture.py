"""`evokernel.capture` and `init --from-run`: calls of a running program become weighted workloads."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch import nn

import evokernel
from evokernel.cli.group import main
from evokernel.errors import TaskError
from evokernel.scaffold.capture.captured_calls import CapturedCalls, unpacked
from evokernel.scaffold.capture.script_calls import script_calls
from evokernel.scaffold.capture.value_statistics import statistics_of

SCRIPT = """
import torch
from layers import Gate, norm

device = "cuda" if torch.cuda.is_available() else "cpu"
gate = Gate(6).to(device).eval()
for rows in (5, 9, 9):
    gate(norm(torch.randn(rows, 6, device=device), eps=1e-5))
"""
LAYERS = """
import torch
from torch import nn


def norm(x, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)


class Gate(nn.Module):
    def __init__(self, dim, hidden=12):
        super().__init__()
        self.dim = dim
        self.up = nn.Linear(dim, hidden)

    def forward(self, x):
        return torch.relu(self.up(x))
"""


def looked_up(x: torch.Tensor, idx: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
    return x[idx] * scale


class Scaled(nn.Module):  # type: ignore[misc]
    def __init__(self, size: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.gain


TABLE, ROWS = torch.randn(20, 8), torch.tensor([3, 7, 7, 17])


def captured(*calls: tuple[Any, ...]) -> CapturedCalls:
    with evokernel.capture(looked_up) as found:
        for arguments in calls:
            looked_up(*arguments)
    return found


def test_calls_of_a_function_are_weighted_workloads_with_what_its_values_were(tmp_path: Path) -> None:
    near = TABLE + 100.0
    calls = captured((near, ROWS), *[(near, ROWS[:3])] * 3, (TABLE[:0], ROWS[:0]))
    project = calls.init(tmp_path, devices=("cpu",))
    (search,) = (each.search for each in project.task.workloads.values())
    assert [(each.weight, *each.dims.values()) for each in search[:2]] == [(3.0, 3, 8, 20), (1.0, 4, 8, 20)]
    assert {each.distribution for each in search} == {"offset"}
    assert project.task.signature.inputs[1].below == "K"
    assert "idx from 3 to 17" in project.task.description
    assert "sorted along the last axis" in project.task.description
    assert calls.empty == 1
    assert not project.unfit


def test_two_captures_see_their_own_calls_and_the_program_goes_on() -> None:
    layers = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 4))
    with evokernel.capture(layers[0]) as first, evokernel.capture(nn.Linear) as both:
        assert layers(torch.zeros(3, 4)).shape == (3, 4)
    assert (len(first), len(both)) == (1, 2)
    assert "linear_module" not in first.text
    assert first.text.endswith("linear = Linear(in_features=4, out_features=8)\n")


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        ([], "never called"),
        ([(TABLE, ROWS), (TABLE.half(), ROWS)], "float32 of 2 axes and float16 of 2 axes"),
        ([(TABLE, ROWS), (TABLE.t().contiguous().t(), ROWS)], "lie in memory as"),
        ([(TABLE, ROWS), (TABLE, ROWS, 2.0)], "scale is 1.0 and 2.0"),
        ([(TABLE, [3, 1], 2.0), (TABLE, [3, 2], 2.0)], r"idx is \[3, 1\] and \[3, 2\]"),
        ([(TABLE.to(torch.int16), ROWS)], "'x' is int16, torch.strided; expected a dense one of float32"),
        ([(TABLE, slice(3))], "idx is a slice; expected tensors"),
    ],
)
def test_calls_that_are_no_one_task_are_refused(calls: list[tuple[Any, ...]], message: str, tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=message):
        captured(*calls).init(tmp_path)
    assert not list(tmp_path.iterdir())


def closure() -> Callable[..., Any]:
    size = torch.randn(1)
    return lambda x: x * size


@pytest.mark.parametrize(
    ("target", "message"),
    [(closure(), "variables of the function around it"), (torch.softmax, "builtin"), (lambda x: x, "at the top")],
)
def test_what_cannot_be_captured_is_refused_before_the_program_runs(target: Any, message: str) -> None:
    with pytest.raises(TaskError, match=message), evokernel.capture(target):
        pytest.fail("the program ran")


def test_a_module_whose_making_is_unknown_is_refused() -> None:
    module = Scaled(3)
    with pytest.raises(TaskError, match="'size' is no attribute"), evokernel.capture(module):
        assert module(torch.ones(3)).shape == (3,)


def test_statistics_tell_repeated_indices_from_independent_ones() -> None:
    drawn = torch.randint(0, 1000, (4000,), generator=torch.Generator().manual_seed(0))
    assert statistics_of(drawn).structure == ""
    assert "distinct values for each element" in statistics_of(drawn % 7 * 140).structure
    assert statistics_of(torch.tensor([[0.0, float("inf")], [2.0, 0.0]])).high == 2.0


def test_a_script_is_run_and_the_calls_of_its_modules_are_read_back(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)  # under root without namespaces the script has a user of its own
    (tmp_path / "layers.py").write_text(LAYERS)
    script = tmp_path / "step.py"
    script.write_text(SCRIPT + "raise ValueError('spent')\n")
    calls, remark = script_calls(script, "Gate")
    assert remark == "line 9 raised ValueError: spent"
    assert [(dict(shapes)["x"], each.count) for shapes, each in next(iter(calls.forms.values())).items()] == [
        ((5, 6), 1),
        ((9, 6), 2),
    ]
    assert calls.text.endswith("gate = Gate(dim=6).eval()\n")
    assert unpacked(calls.packed()) == calls


@pytest.mark.parametrize(
    ("values", "distribution"),
    [
        (torch.randn(64), "normal"),
        (torch.eye(32), "needles"),
        (torch.tensor([0.0, 1.0, 1.0, 0.0]), "integers01"),
        (torch.randint(0, 1000, (4000,)) % 7 * 140, "wide"),
        (torch.randn(64) + 100.0, "offset"),
    ],
)
def test_values_are_timed_on_the_distribution_that_they_are_most_like(values: torch.Tensor, distribution: str) -> None:
    assert statistics_of(values).distribution == distribution


def test_the_function_of_a_file_is_told_apart_from_that_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "layers.py").write_text(LAYERS)
    mixed = CliRunner().invoke(main, ["init", str(tmp_path / "layers.py"), "--function", "norm"])
    assert mixed.exit_code == 2
    assert "--function belongs to --from-run; a function of FILE.py is FILE.py:NAME" in mixed.output


@pytest.mark.slow
def test_from_run_writes_a_project(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)  # under root without namespaces the script has a user of its own
    (tmp_path / "layers.py").write_text(LAYERS)
    (tmp_path / "step.py").write_text(SCRIPT)
    asked = ["init", "--from-run", str(tmp_path / "step.py"), "--device", "cpu", "--function"]
    done = CliRunner().invoke(main, [*asked, "norm"])
    assert done.exit_code == 0, done.output
    assert "_size(9, 6, weight=2.0), _size(5, 6)" in (tmp_path / "norm_task.py").read_text()
    refused = CliRunner().invoke(main, [*asked, "normal"])
    assert refused.exit_code == 2
    assert "normal was never called" in refused.output
    assert CliRunner().invoke(main, ["init", "--from-run", str(tmp_path / "step.py")]).exit_code == 2
