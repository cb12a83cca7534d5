"""Operations of a user whose results are bytes, from `init` to a verdict on a GPU."""

import subprocess
import sys
from pathlib import Path

import pytest

from evokernel.config.run import EvaluationConfig
from evokernel.evaluate.client.evaluate_kernel import judge
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Fidelity

OPERATIONS = {
    "greater": "def greater(x, y):\n    return x > y\n",
    "quantise": """\
def quantise(x):
    scale = x.float().abs().amax(dim=-1, keepdim=True).clamp(min=1e-6) / 127.0
    return torch.round(x.float() / scale).to(torch.int8), scale
""",
    "narrow": """\
def narrow(x, y):
    return (torch.nn.functional.silu(x.float()) * y.float()).clamp(-448, 448).to(torch.float8_e4m3fn)
""",
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_kernel_that_init_wrote_is_right_and_timed_beside_a_compiled_baseline(tmp_path: Path, name: str) -> None:
    file = tmp_path / f"{name}.py"
    arguments = ", ".join(["torch.randn(4096, 2048, dtype=torch.bfloat16)"] * (1 if name == "quantise" else 2))
    file.write_text(f"import torch\n\n\n{OPERATIONS[name]}\n\ndef get_inputs():\n    return [{arguments}]\n")
    command = [sys.executable, "-m", "evokernel", "init", str(file), "--device", "cuda"]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    seed = Candidate((tmp_path / f"{name}_triton.py").read_text(), "triton")
    budgets, task = (Fidelity.QUICK,), str(tmp_path / f"{name}_task.py")
    last = judge(seed, task, budgets=budgets, settings=EvaluationConfig()).last
    assert last.ok, f"{made.stdout}\n{last.feedback}"
