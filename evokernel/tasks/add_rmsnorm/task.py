"""Residual addition and root mean square normalisation in one, as between the layers of a language model."""

from pathlib import Path

import torch

from evokernel.task import Precision, Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet
from evokernel.tasks.compiled import compiled

_SEEDS = Path(__file__).parent / "seeds"


def reference(
    x: torch.Tensor, residual: torch.Tensor, w: torch.Tensor, *, eps: float, **_: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Add, divide each row of the sum by the root of its mean square, and scale its columns; also return the sum."""
    wide = torch.promote_types(x.dtype, torch.float32)
    total = x.to(wide) + residual.to(wide)
    scale = torch.rsqrt(total.square().mean(dim=1, keepdim=True) + eps)
    return (total * scale * w).to(x.dtype), total.to(x.dtype)


def torch_add_rmsnorm(inputs: dict[str, torch.Tensor], outputs: tuple[torch.Tensor, ...]) -> None:
    """Let torch do one after the other."""
    y, total = outputs
    torch.add(inputs["x"], inputs["residual"], out=total)
    y.copy_(torch.nn.functional.rms_norm(total, total.shape[1:], inputs["w"], float(inputs["eps"])))


def written_out(inputs: dict[str, torch.Tensor], outputs: tuple[torch.Tensor, ...]) -> None:
    """Do it step by step, for the compiler to put together."""
    total = inputs["x"].float() + inputs["residual"].float()
    scale = torch.rsqrt(total.square().mean(dim=1, keepdim=True) + inputs["eps"])
    outputs[0].copy_(total * scale * inputs["w"])
    outputs[1].copy_(total)


def _size(rows: int, columns: int, weight: float = 1.0) -> Workload:
    return Workload(f"{rows}x{columns}", {"R": rows, "C": columns, "eps": 1e-5}, weight)


task = Task(
    name="add_rmsnorm",
    description="s[R,C] = x[R,C] + residual[R,C]; y[R,C] = s / sqrt(mean of the squares of its row + eps) * w[C]",
    reference=reference,
    signature=Signature(
        inputs=(Tensor("x", ("R", "C")), Tensor("residual", ("R", "C")), Tensor("w", ("C",))),
        scalars=(Scalar("R"), Scalar("C"), Scalar("eps", "float32")),
        outputs=(Tensor("y", ("R", "C"), role=Role.OUTPUT), Tensor("s", ("R", "C"), role=Role.OUTPUT)),
    ),
    workloads={
        "cpu": WorkloadSet(
            search=(_size(1024, 1024, weight=2.0), _size(256, 4096), _size(2048, 256)),
            holdout=(_size(777, 1000), _size(128, 8192), _size(4096, 128)),
            probe={"R": (1, 37), "C": (1, 1100)},
        ),
        "cuda": WorkloadSet(
            search=(_size(8192, 4096, weight=2.0), _size(16384, 2048), _size(4096, 8192)),
            holdout=(_size(2048, 5120), _size(5000, 3001), _size(1024, 16384)),
            probe={"R": (1, 70), "C": (1, 5000)},
            probes=3,
            dtype="bfloat16",
            baselines={"torch": torch_add_rmsnorm, "torch.compile": compiled(written_out)},
        ),
    },
    flops="5 * R * C",
    precision=Precision(reduction="C"),
    baselines={"torch": torch_add_rmsnorm},
    seeds={"cpp": _SEEDS / "plain.cpp", "triton": _SEEDS / "plain.py"},
)
