"""reference.py of an export: the reference and what it needs of its file, and nothing of ours."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evokernel.export.check import check_reference
from evokernel.export.reference import REFERENCE, reference_files
from evokernel.tasks import builtin_tasks, load_task
from tests.support.exports import run_beside

FILE = """\
from __future__ import annotations
import math, operator as op
from functools import lru_cache, partial
from evokernel.task import Task
LOW, HIGH = -1.5, 1.5
UNUSED = Task

@lru_cache(maxsize=None)
def bound(name: str) -> float:
    return {"low": LOW, "high": HIGH}[name] + helper(0)

def helper(x):
    return op.mul(x, 2)

class Wide:
    factor = math.pi

def clamp(x, **_):
    return min(max(x, bound("low")), bound("high")) * Wide.factor

def needs_us(x, **_):
    return Task(x)

def outer():
    free = 1
    def inner(x):
        return x + free
    return inner

small = lambda x: x
"""


@pytest.fixture
def names(tmp_path: Path) -> dict[str, object]:
    path, found = tmp_path / "own.py", dict[str, object]()
    path.write_text(FILE, encoding="utf-8")
    exec(compile(FILE, str(path), "exec"), found)
    return found


def test_it_carries_what_the_reference_needs_of_its_file_and_nothing_else(names, tmp_path: Path) -> None:
    text = reference_files(names["clamp"])[REFERENCE]
    (tmp_path / "reference.py").write_text(text, encoding="utf-8")
    shown = run_beside(tmp_path, "from reference import reference; print(reference(2.0))")
    assert float(shown) == pytest.approx(1.5 * 3.14159265)
    for left_out in ("evokernel", "UNUSED", "partial", "outer", "small"):
        assert left_out not in text.partition("\n")[2]


@pytest.mark.parametrize("name", ["needs_us", "small"])
def test_what_needs_more_is_not_written_down(names, name: str) -> None:
    assert reference_files(names[name]) == {}


def test_a_function_inside_another_is_not_written_down(names) -> None:
    assert reference_files(names["outer"]()) == {}


def test_every_reference_of_a_built_in_task_works_without_its_file(tmp_path: Path) -> None:
    for name in builtin_tasks():
        files = reference_files(load_task(name).reference)
        assert files.keys() == {REFERENCE}, name
        (tmp_path / f"{name}.py").write_text(files[REFERENCE], encoding="utf-8")
    names = list(builtin_tasks())
    run_beside(tmp_path, f"import importlib; [importlib.import_module(name).reference for name in {names!r}]")


OWN = """\
import torch

def double(x):
    return x * 2
"""
TASK = """\
from pathlib import Path
import torch
from evokernel.scaffold.operation.user_file import load_source
source = load_source(Path(__file__).parent / "{file}")

def reference(x: torch.Tensor, **_: int) -> torch.Tensor:
    return source.double(x)
"""


def reference_of(folder: Path, file: str, text: str = OWN) -> Callable[..., Any]:
    (folder / file).write_text(text, encoding="utf-8")
    path, found = folder / "own_task.py", {"__file__": str(folder / "own_task.py")}
    path.write_text(TASK.format(file=file), encoding="utf-8")
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), found)
    return found["reference"]  # type: ignore[return-value]


def test_the_file_that_init_made_a_task_of_comes_along(tmp_path: Path) -> None:
    files = reference_files(reference_of(tmp_path, "my_op.py"))
    assert files.keys() == {REFERENCE, "my_op.py"}
    assert "evokernel" not in "".join(files.values()).replace("evokernel init", "")
    assert check_reference(files) == ""
    assert reference_files(reference_of(tmp_path, "kernel.py")) == {}  # an export has one itself
    (tmp_path / "pack").mkdir()
    for name, text in files.items():
        (tmp_path / "pack" / name).write_text(text, encoding="utf-8")
    (tmp_path / "my_op.py").unlink()
    assert run_beside(tmp_path, "from pack.reference import reference; print(reference(2.0))") == "4.0\n"


def test_a_reference_that_needs_more_files_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "beside.py").touch()
    files = reference_files(reference_of(tmp_path, "my_op.py", f"import beside\n{OWN}"))
    assert "No module named 'beside'" in check_reference(files)


@pytest.mark.parametrize(
    "line",
    ["import evokernel", "import math, evokernel.judging as j; import evokernel", "from evokernel import evolve"],
)
def test_imports_of_ours_beside_the_function_are_left_out(tmp_path: Path, line: str) -> None:
    text = (
        OWN.replace("import torch", f"import torch\n{line}\nimport operator")
        + "\ndef search():\n    evokernel.evolve(double)\n"
    )
    files = reference_files(reference_of(tmp_path, "my_op.py", text))
    assert check_reference(files) == ""
    assert "import evokernel" not in files["my_op.py"]
    assert "import operator\n" in files["my_op.py"]
    assert ("import math" in files["my_op.py"]) == ("math" in line)


def test_a_function_that_itself_needs_ours_is_not_written_down(tmp_path: Path) -> None:
    text = f"import evokernel as ek\n{OWN.replace('x * 2', 'helper(x)')}\ndef helper(x):\n    return ek.twice(x)\n"
    assert reference_files(reference_of(tmp_path, "my_op.py", text)) == {}
