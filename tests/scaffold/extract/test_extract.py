"""`evokernel extract`: a kernel's own text as a seed, tunables from its configurations, and what is refused."""

import ast
from pathlib import Path

import pytest
import torch

from evokernel.config.load import load_config
from evokernel.errors import TaskError
from evokernel.languages.gpu.triton_static_check import static_check
from evokernel.scaffold.extract.extract_project import extract_project
from evokernel.scaffold.extract.kernel_text import function_text, kernel_text
from evokernel.scaffold.extract.recorded_call import KernelCall
from evokernel.scaffold.inductor.seed import NoInductorSeed, check_program
from evokernel.source.tunables import read_tunables
from evokernel.task import Role, Scalar, Signature, Tensor

NORM = '''
import os

import torch
import triton
import triton.language as tl

EPS = 1e-6
HOME = os.environ.get("HOME")


@triton.autotune(
    configs=[triton.Config({"BLOCK": n}, num_warps=w) for n, w in ((32, 1), (128, 2))],
    key=["n_cols"],
)
@triton.jit
def norm_kernel(y, x, w, n_cols, eps, BLOCK: tl.constexpr):
    # one row for each program
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n_cols, BLOCK):
        value = tl.load(x + row * n_cols + start + cols, mask=start + cols < n_cols, other=0.0)
        total += value * value
    scale = tl.rsqrt(tl.sum(total) / n_cols + eps)
    for start in range(0, n_cols, BLOCK):
        mask = start + cols < n_cols
        value = tl.load(x + row * n_cols + start + cols, mask=mask) * scale * tl.load(w + start + cols, mask=mask)
        tl.store(y + row * n_cols + start + cols, value, mask=mask)


def rmsnorm(x, weight, eps=EPS, name=None):
    """The doc."""
    assert x.is_cuda and x.device == weight.device
    rows = x.view(-1, x.shape[-1])
    M, N = rows.shape
    out = torch.empty_like(rows)
    with torch.cuda.device(x.device):
        norm_kernel[(M,)](
            out, rows, weight, N, eps,  # as they lie
        )
    return out.view(x.shape)


def rmsnorm_torch(x, weight, eps=EPS):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


if __name__ == "__main__":
    x = torch.randn(96, 64, device="cuda")
    try:
        print(rmsnorm(x, torch.ones(64).cuda(), eps=1e-5).sum().item())
    except Exception:
        pass
'''
SIGNATURE = Signature(
    (Tensor("x", ("M", "N")), Tensor("weight", ("N",))),
    (Scalar("M"), Scalar("N")),
    (Tensor("out", ("M", "N"), role=Role.OUTPUT),),
)
CONFIGS = tuple({"BLOCK": block, "num_warps": warps, "num_stages": 3} for block, warps in ((32, 1), (128, 2)))


def call_of(folder: Path, text: str, name: str = "rmsnorm", **tuned: object) -> KernelCall:
    (folder / "norms.py").write_text(text, encoding="utf-8")
    arguments = {"x": torch.ones(96, 64), "weight": torch.ones(64), "eps": 1e-5, "name": None}
    return KernelCall(folder / "norms.py", name, arguments, tuned)  # type: ignore[arg-type]


def written(folder: Path, text: str, *, config: int = 0) -> str:
    return kernel_text(call_of(folder, text, norm_kernel=CONFIGS), SIGNATURE, ("x", "weight"), config=config)


def test_configurations_become_tunables(tmp_path: Path) -> None:
    text = written(tmp_path, NORM, config=1)
    assert static_check(text) is None
    space = read_tunables(text)
    assert {each.name: (each.value, each.choices) for each in space.tunables} == {
        "BLOCK": (128, (32, 128)),
        "NUM_WARPS": (2, (1, 2)),
    }
    assert "# one row for each program" in text
    assert "HOME" not in text
    tree = ast.parse(text)
    run = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "run")
    assert [argument.arg for argument in run.args.args] == ["x", "weight", "M", "N", "out"]
    assert ast.unparse(run.body[0]) == "eps = 1e-05"
    said = ast.unparse(run)
    assert "out = out.view(rows.shape)" in said
    assert "norm_kernel[M,](out, rows, weight, N, eps, BLOCK=BLOCK, num_warps=NUM_WARPS, num_stages=NUM_STAGES)" in said
    assert "assert" not in said


def test_numbers_at_a_launch_become_tunables(tmp_path: Path) -> None:
    plain = NORM.replace("@triton.autotune(", "@triton.jit\ndef other(x):\n    pass\n\n\nUNUSED = dict(").replace(
        "eps,  # as they lie", "eps, BLOCK=64, num_warps=8"
    )
    text = kernel_text(call_of(tmp_path, plain), SIGNATURE, ("x", "weight"))
    assert {each.name: each.choices for each in read_tunables(text).tunables} == {
        "BLOCK": (16, 32, 64, 128, 256),
        "NUM_WARPS": (2, 4, 8, 16),
    }


def test_a_number_that_the_grid_needs_too_stays(tmp_path: Path) -> None:
    plain = NORM.replace("norm_kernel[(M,)]", "norm_kernel[(M // 64 * 64,)]").replace(
        "eps,  # as", "eps, BLOCK=64,  # as"
    )
    text = kernel_text(call_of(tmp_path, plain), SIGNATURE, ("x", "weight"))
    assert read_tunables(text).tunables == ()


def test_names_of_a_file_are_not_hidden(tmp_path: Path) -> None:
    text = NORM.replace("EPS = 1e-6", "M = 96").replace("eps=EPS", "eps=1").replace("M, N = rows", "_, N = rows")
    assert "def run(x, weight, M_, N, out):" in written(tmp_path, text)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("return out.view(x.shape)", "return out + 1", "which is not allocated there"),
        ("torch.empty_like(rows)", "rows.clone()", "which is not allocated there"),
        ("    rows = x", "    if not x.numel():\n        return x\n    rows = x", "must end with its only `return`"),
        ("def rmsnorm(", "def other(", "defines no function rmsnorm"),
        ("return out.view(x.shape)", "return out, rows", "returns 2 tensors, and the reference 1"),
    ],
)
def test_other_forms_are_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(TaskError, match=said):
        written(tmp_path, NORM.replace(old, new))


def test_configurations_must_be_numbers(tmp_path: Path) -> None:
    odd = ({"BLOCK": 32, "kind": "fast"}, {"BLOCK": 32, "kind": "slow"})
    with pytest.raises(TaskError, match="give kind the values fast, slow"):
        kernel_text(call_of(tmp_path, NORM, norm_kernel=odd), SIGNATURE, ("x", "weight"))
    with pytest.raises(TaskError, match="there is no 2"):
        written(tmp_path, NORM, config=2)


def test_places_are_refused(tmp_path: Path) -> None:
    (tmp_path / "norms.py").write_text(NORM, encoding="utf-8")
    script, right = tmp_path / "norms.py", f"{tmp_path / 'norms.py'}:rmsnorm_torch"
    for place, said in (
        ("k.cu", "expected FILE.py:FUNCTION"),
        ("norms", "expected FILE.py:FUNCTION"),
        ("no.py:f", "no file"),
    ):
        with pytest.raises(TaskError, match=said):
            extract_project(place, script=script, reference=right)


def test_the_reference_alone(tmp_path: Path) -> None:
    text = function_text(call_of(tmp_path, NORM).module, "rmsnorm_torch")
    assert "triton" not in text
    assert "EPS = 1e-6" in text


@pytest.mark.slow
def test_a_recorded_call_becomes_a_project(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    tmp_path.chmod(0o755)
    script = tmp_path / "norms.py"
    script.write_text(NORM, encoding="utf-8")
    project = extract_project(
        f"{script}:rmsnorm", script=script, reference=f"{script}:rmsnorm_torch", out=tmp_path / "out"
    )
    ends = ("_task.py", "_triton.py", ".yaml", ".schema.json", "_before.py", "_reference.py")
    assert all(file.name.endswith(end) for file, end in zip(project.files, ends, strict=True))
    task_file, seed, config, _, before, _ = project.files
    assert not project.unfit
    text = seed.read_text(encoding="utf-8")
    assert "Triton's interpreter gives the reference's results" in text
    assert "# tune: 32 128" in text
    assert load_config(config).evaluation.expert == str(before)
    assert before.read_text(encoding="utf-8") == text
    assert project.task.workloads["cuda"].search[0].name == "96x64"
    with pytest.raises(NoInductorSeed, match=r"^mine is wrong"):
        check_program(str(task_file), text.replace("* scale", ""), whose="mine", compare_s=900.0)
