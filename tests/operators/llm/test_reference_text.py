"""What prompts show of the function that a kernel must compute."""

from dataclasses import replace
from pathlib import Path

from evokernel.tasks import load_task
from operators.llm.reference_text import CHARACTERS, reference_source
from tests.support.engine import TASK

OPERATION = """import torch


def scaled(x):
    return 3 * helper(x)


def helper(x):
    return torch.tanh(x)
"""
HEAD = """from pathlib import Path

import torch

from evokernel.scaffold.operation.user_file import load_source
from evokernel.task import Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet

source = load_source(Path(__file__).parent / "operation.py")


class Scaled(torch.nn.Module):
    def forward(self, x):
        return source.scaled(x)


"""
TAIL = """

task = Task(
    name="scaled",
    reference=reference,
    signature=Signature((Tensor("x", ("N",)),), (Scalar("N"),), (Tensor("y", ("N",), role=Role.OUTPUT),)),
    workloads={"cpu": WorkloadSet((Workload("w", {"N": 8}),), (Workload("h", {"N": 9}),), {"N": (1, 9)})},
    flops="N",
)
"""


def shown(folder: Path, reference: str, *, operation: str = OPERATION) -> str:
    (folder / "operation.py").write_text(operation)
    (folder / "scaled_task.py").write_text(HEAD + reference + TAIL)
    return reference_source(load_task(str(folder / "scaled_task.py")))


def test_a_file_that_the_reference_hands_on_to_is_shown(tmp_path: Path) -> None:
    text = shown(tmp_path, "def reference(x, **_):\n    return source.scaled(x)\n")
    assert text.startswith("def reference(x, **_):")
    assert "# operation.py\n" in text
    assert "return torch.tanh(x)" in text
    assert "holdout" not in text
    assert "Tensor(" not in text


def test_functions_beside_the_reference_are_shown_once(tmp_path: Path) -> None:
    text = shown(
        tmp_path,
        "def twice(x):\n    return 2 * once(x)\n\n\ndef once(x):\n    return x if x.ndim else twice(x)\n\n\n"
        "def reference(x, **_):\n    return twice(x) + once(x)\n",
    )
    assert [text.count(f"def {name}(") for name in ("reference", "twice", "once")] == [1, 1, 1]
    assert "operation.py" not in text


def test_a_long_file_is_cut(tmp_path: Path) -> None:
    text = shown(
        tmp_path,
        "def reference(x, **_):\n    return source.scaled(x)\n",
        operation=OPERATION + "\n".join(f"x{number} = {number}" for number in range(9000)),
    )
    assert "characters left out" in text
    assert len(text) < CHARACTERS + 1000


def test_a_reference_without_a_text_is_described() -> None:
    assert reference_source(replace(TASK, reference=eval("lambda x, **_: x"), description="y = x")) == (
        "# its source cannot be read: y = x"
    )
