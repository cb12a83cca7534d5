"""Two winners as one operator with gradients: made by the commands, and used without evokernel."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from evokernel.cli.group import main
from tests.support.exports import run_beside

FUNCTION = """
import torch

def rmsnorm(x, gain, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * gain
"""
SHORT = "evaluation: {quick_ms: 10, precise_ms: 10, final_ms: 20, final_processes: 1}\n"
USE = """
import torch
from op import rmsnorm
import op

def plain(x, gain):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * gain

def grads(function, x, gain, came):
    leaves = [each.clone().requires_grad_() for each in (x, gain)]
    return torch.autograd.grad(function(*leaves), leaves, came)

calls = []
for part in (op._forward, op._backward):
    case = next(iter(part._CASES.values()))
    run = case.kernel.run
    case.kernel.run = lambda *given, run=run, **more: calls.append(run) or run(*given, **more)
x, gain, came = torch.randn(64, 128), torch.randn(128), torch.randn(64, 128)
found = grads(rmsnorm, x, gain, came)
assert len(calls) == 2, calls  # a kernel each way
due = grads(plain, x.double(), gain.double(), came.double())
for one, other in zip(found, due):
    torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-4)
for one, other in zip(grads(torch.compile(rmsnorm, backend="aot_eager"), x, gain, came), found):
    torch.testing.assert_close(one, other)
assert len(calls) == 4
wide = [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((5, 7), (7,))]
assert torch.autograd.gradcheck(rmsnorm, wide)  # torch answers, through the same operator
assert len(calls) == 4
assert torch.equal(rmsnorm(x, gain, eps=1e-6), rmsnorm(x, gain))
try:
    rmsnorm(x, gain, eps=1e-5)
except ValueError as error:
    assert "computes with eps=1e-06 alone" in str(error)
else:
    raise SystemExit("another value was taken")
frozen = rmsnorm(x, gain.clone().requires_grad_())
frozen.sum().backward()  # gradients of an expanded tensor
try:
    torch.autograd.grad(rmsnorm(*wide).sum(), wide, create_graph=True)
except RuntimeError as error:
    assert "second derivatives" in str(error)
else:
    raise SystemExit("taken")
"""


@pytest.mark.slow
def test_two_searches_become_one_operator_with_gradients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my_op.py").write_text(FUNCTION, encoding="utf-8")

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(main, arguments)
        assert done.exit_code == 0, done.output
        return done.output

    shown = run("init", "--training", "my_op.py", "--inputs", "x: 64x128, gain: 128", "--device", "cpu")
    assert "saved      rsqrt[M,1]" in shown
    for part in ("forward", "backward"):
        with Path(f"rmsnorm_{part}.yaml").open("a", encoding="utf-8") as config:
            config.write(SHORT)
        run("evolve", f"rmsnorm_{part}.yaml", "--set", "device=cpu", "--budget", "evaluations=1")
    stores = ("runs/rmsnorm_forward.db", "runs/rmsnorm_backward.db")
    shown = run("export", stores[0], "--backward", stores[1], "--out", "both")
    assert "within the tasks' tolerances of autograd in fp64" in " ".join(shown.split())
    assert json.loads(Path("both/provenance.json").read_text())["forward_and_backward"]
    run_beside(Path("both"), USE)
    wrong = CliRunner().invoke(main, ["export", stores[1], "--backward", stores[0], "--out", "other"])
    assert wrong.exit_code != 0
    assert not Path("other").exists()
