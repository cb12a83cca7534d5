"""Layer normalisation of the rows of a matrix: mean 0, variance 1, then a scale and a shift for each column."""

from pathlib import Path

import torch
from torch.nn.functional import layer_norm

from evokernel.task import Precision, Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet
from evokernel.tasks.compiled import compiled

_SEEDS = Path(__file__).parent / "seeds"


def reference(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, *, eps: float, **_: int) -> torch.Tensor:
    """Subtract each row's mean, divide by the root of its variance, scale and shift its columns."""
    wide = torch.promote_types(x.dtype, torch.float32)
    return layer_norm(x.to(wide), x.shape[1:], w.to(wide), b.to(wide), eps).to(x.dtype)


def torch_layernorm(inputs: dict[str, torch.Tensor], outputs: tuple[torch.Tensor, ...]) -> None:
    """Let torch's own operation do it."""
    x = inputs["x"]
    outputs[0].copy_(layer_norm(x, x.shape[1:], inputs["w"], inputs["b"], float(inputs["eps"])))


def _size(rows: int, columns: int, weight: float = 1.0) -> Workload:
    return Workload(f"{rows}x{columns}", {"R": rows, "C": columns, "eps": 1e-5}, weight)


task = Task(
    name="layernorm",
    description="y[R,C] = (x[R,C] - mean of the row) / sqrt(variance of the row + eps) * w[C] + b[C]; sums in fp32",
    reference=reference,
    signature=Signature(
        inputs=(Tensor("x", ("R", "C")), Tensor("w", ("C",)), Tensor("b", ("C",))),
        scalars=(Scalar("R"), Scalar("C"), Scalar("eps", "float32")),
        outputs=(Tensor("y", ("R", "C"), role=Role.OUTPUT),),
    ),
    workloads={
        "cpu": WorkloadSet(
            search=(_size(1024, 1024, weight=2.0), _size(256, 4096), _size(2048, 256)),
            holdout=(_size(777, 1000), _size(128, 8192), _size(4096, 128)),
            probe={"R": (1, 37), "C": (2, 1100)},
        ),
        "cuda": WorkloadSet(
            search=(_size(8192, 4096, weight=2.0), _size(16384, 1024), _size(4096, 8192)),
            holdout=(_size(2048, 5120), _size(5000, 3001), _size(1024, 12288)),
            probe={"R": (1, 70), "C": (2, 5000)},
            probes=3,
            dtype="bfloat16",
            baselines={"torch": torch_layernorm, "torch.compile": compiled(torch_layernorm)},
        ),
    },
    flops="7 * R * C",
    # one sum follows from the other, and with columns of all sizes a common error of a row shows where terms cancel
    precision=Precision(reduction="64 * C"),
    baselines={"torch": torch_layernorm},
    seeds={"cpp": _SEEDS / "plain.cpp", "triton": _SEEDS / "plain.py"},
)
