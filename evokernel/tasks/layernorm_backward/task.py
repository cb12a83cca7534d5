"""The gradients of a layer normalisation: for its input, for the scale and for the shift of each column."""

from pathlib import Path

import torch

from evokernel.task import Precision, Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet
from evokernel.tasks.compiled import compiled

_SEEDS = Path(__file__).parent / "seeds"
_Gradients = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def reference(x: torch.Tensor, w: torch.Tensor, dy: torch.Tensor, *, eps: float, **_: int) -> _Gradients:
    """Carry the gradient of the result back; what the way forth had computed is computed anew."""
    wide = torch.promote_types(x.dtype, torch.float32)
    dx, dw, db = _gradients(x.to(wide), w.to(wide), dy.to(wide), eps)
    return dx.to(x.dtype), dw.to(x.dtype), db.to(x.dtype)


def _gradients(x: torch.Tensor, w: torch.Tensor, dy: torch.Tensor, eps: float) -> _Gradients:
    variance, mean = torch.var_mean(x, dim=1, correction=0, keepdim=True)
    scale = torch.rsqrt(variance + eps)
    normal, scaled = (x - mean) * scale, dy * w
    along = (normal * scaled).mean(dim=1, keepdim=True)
    dx = (scaled - scaled.mean(dim=1, keepdim=True) - normal * along) * scale
    return dx, (dy * normal).sum(dim=0), dy.sum(dim=0)


def torch_backward(inputs: dict[str, torch.Tensor], outputs: tuple[torch.Tensor, ...]) -> None:
    """Let torch's own operations do it, forth for the mean and the variance, and back."""
    x, w, eps = inputs["x"], inputs["w"], float(inputs["eps"])
    columns = list(x.shape[1:])
    _, mean, scale = torch.native_layer_norm(x, columns, w, w, eps)
    gradients = torch.ops.aten.native_layer_norm_backward(
        inputs["dy"], x, columns, mean, scale, w, w, [True, True, True]
    )
    for output, gradient in zip(outputs, gradients, strict=True):
        output.copy_(gradient)


def written_out(inputs: dict[str, torch.Tensor], outputs: tuple[torch.Tensor, ...]) -> None:
    """Do it step by step, for the compiler to put together."""
    x, w, dy = inputs["x"].float(), inputs["w"].float(), inputs["dy"].float()
    dx, dw, db = _gradients(x, w, dy, float(inputs["eps"]))
    outputs[0].copy_(dx)
    outputs[1].copy_(dw)
    outputs[2].copy_(db)


def _size(rows: int, columns: int, weight: float = 1.0) -> Workload:
    return Workload(f"{rows}x{columns}", {"R": rows, "C": columns, "eps": 1e-5}, weight)


task = Task(
    name="layernorm_backward",
    description="dx[R,C], dw[C], db[C]: gradients of layernorm(x[R,C]) * w[C] + b[C] for the gradient dy[R,C]",
    reference=reference,
    signature=Signature(
        inputs=(Tensor("x", ("R", "C")), Tensor("w", ("C",)), Tensor("dy", ("R", "C"))),
        scalars=(Scalar("R"), Scalar("C"), Scalar("eps", "float32")),
        outputs=(
            Tensor("dx", ("R", "C"), role=Role.OUTPUT),
            Tensor("dw", ("C",), role=Role.OUTPUT),
            Tensor("db", ("C",), role=Role.OUTPUT),
        ),
    ),
    workloads={
        "cpu": WorkloadSet(
            search=(_size(512, 1024, weight=2.0), _size(128, 4096), _size(2048, 256)),
            holdout=(_size(577, 1000), _size(100, 6000), _size(3000, 128)),
            probe={"R": (1, 37), "C": (4, 900)},
        ),
        "cuda": WorkloadSet(
            search=(_size(8192, 4096, weight=2.0), _size(16384, 1024), _size(4096, 8192)),
            holdout=(_size(2048, 5120), _size(5000, 3001), _size(1024, 12288)),
            probe={"R": (1, 300), "C": (4, 3000)},
            probes=3,
            dtype="bfloat16",
            baselines={"torch": torch_backward, "torch.compile": compiled(written_out)},
        ),
    },
    flops="15 * R * C",
    # four sums follow one from another (mean, variance, the gradient itself and along the normalised row), and with
    # columns of all sizes a common error of a row shows where terms cancel
    precision=Precision(reduction="64 * (R + C)"),
    baselines={"torch": torch_backward},
    seeds={"cpp": _SEEDS / "plain.cpp", "triton": _SEEDS / "plain.py"},
)
