"""A layer of an image network in one: 3x3 convolution with a border of zeros, bias, ReLU."""

from pathlib import Path

import torch
from torch.nn.functional import conv2d

from evokernel.task import Precision, Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet
from evokernel.tasks.compiled import compiled

_SEEDS = Path(__file__).parent / "seeds"


def reference(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor, **_: int) -> torch.Tensor:
    """Convolve so that the image keeps its size, add the bias of the channel, and cut off what is negative."""
    wide = torch.promote_types(x.dtype, torch.float32)
    return conv2d(x.to(wide), w.to(wide), bias.to(wide), padding=1).relu_().to(x.dtype)


def torch_layer(inputs: dict[str, torch.Tensor], outputs: tuple[torch.Tensor, ...]) -> None:
    """Let torch do the convolution with its bias, then ReLU."""
    outputs[0].copy_(conv2d(inputs["x"], inputs["w"], inputs["bias"], padding=1).relu())


def _size(images: int, channels: int, height: int, width: int, results: int, weight: float = 1.0) -> Workload:
    dims = {"N": images, "C": channels, "H": height, "W": width, "K": results}
    return Workload(f"{images}x{channels}x{height}x{width} to {results}", dims, weight)


task = Task(
    name="conv2d_bias_relu",
    description="y[N,K,H,W] = relu(conv(x[N,C,H,W], w[K,C,3,3], zeros around) + bias[K]); sums in fp32",
    reference=reference,
    signature=Signature(
        inputs=(Tensor("x", ("N", "C", "H", "W")), Tensor("w", ("K", "C", 3, 3)), Tensor("bias", ("K",))),
        scalars=(Scalar("N"), Scalar("C"), Scalar("H"), Scalar("W"), Scalar("K")),
        outputs=(Tensor("y", ("N", "K", "H", "W"), role=Role.OUTPUT),),
    ),
    workloads={
        "cpu": WorkloadSet(
            search=(_size(1, 32, 56, 56, 32, weight=2.0), _size(2, 64, 28, 28, 64), _size(1, 3, 112, 112, 32)),
            holdout=(_size(1, 24, 50, 60, 40), _size(4, 64, 14, 14, 48), _size(1, 16, 97, 31, 16)),
            probe={"N": (1, 3), "C": (1, 20), "H": (1, 25), "W": (1, 25), "K": (1, 20)},
        ),
        "cuda": WorkloadSet(
            search=(_size(32, 64, 56, 56, 64, weight=2.0), _size(32, 128, 28, 28, 128), _size(32, 256, 14, 14, 256)),
            holdout=(_size(64, 128, 28, 28, 256), _size(16, 96, 55, 61, 80), _size(8, 64, 112, 112, 128)),
            probe={"N": (1, 3), "C": (1, 70), "H": (1, 40), "W": (1, 40), "K": (1, 70)},
            probes=3,
            dtype="bfloat16",
            baselines={"torch": torch_layer, "torch.compile": compiled(torch_layer)},
        ),
    },
    flops="2 * N * K * C * (3 * H - 2) * (3 * W - 2)",  # without the products with the zeros around
    precision=Precision(reduction="9 * C", exact_on_integers=True),
    baselines={"torch": torch_layer},
    seeds={"cpp": _SEEDS / "plain.cpp", "triton": _SEEDS / "plain.py"},
)
