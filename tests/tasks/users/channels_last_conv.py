"""A 3x3 convolution that reads an image in the layout channels-last, and writes a contiguous one."""

from pathlib import Path

import torch

from evokernel.task import Precision, Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet

SEEDS = Path(__file__).parent / "seeds"


def reference(x: torch.Tensor, w: torch.Tensor, **_: int) -> torch.Tensor:
    return torch.nn.functional.conv2d(x, w)


def _size(n: int, c: int, h: int, f: int) -> Workload:
    return Workload(f"{n}x{c}x{h}x{h}", {"N": n, "C": c, "H": h, "W": h, "F": f})


task = Task(
    name="channels_last_conv",
    description="y[N,F,H-2,W-2] = conv2d(x[N,C,H,W], w[F,C,3,3]), x and w channels-last",
    reference=reference,
    signature=Signature(
        inputs=(
            Tensor("x", ("N", "C", "H", "W"), strides=("C * H * W", 1, "C * W", "C")),
            Tensor("w", ("F", "C", 3, 3), strides=("C * 9", 1, "C * 3", "C")),
        ),
        scalars=tuple(map(Scalar, "NCHWF")),
        outputs=(Tensor("y", ("N", "F", "H - 2", "W - 2"), role=Role.OUTPUT),),
    ),
    workloads={
        "cpu": WorkloadSet(
            search=(_size(2, 16, 18, 8),),
            holdout=(_size(1, 12, 15, 6),),
            probe={"N": (1, 3), "C": (1, 9), "H": (3, 12), "W": (3, 12), "F": (1, 5)},
            probes=2,
        )
    },
    flops="N * F * (H - 2) * (W - 2) * C * 18",
    precision=Precision(reduction="C * 9", exact_on_integers=True),
    seeds={"cpp": SEEDS / "channels_last_conv.cpp"},
)
