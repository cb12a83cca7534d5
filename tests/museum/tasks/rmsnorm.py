"""Root-mean-square normalisation of the rows of a matrix, with a gain for each column, in fp32."""

import torch
from museum_rows import rows_task

from evokernel.task import Precision, Tensor


def reference(x: torch.Tensor, gain: torch.Tensor, eps: float, **_: int) -> torch.Tensor:
    return x * torch.rsqrt((x * x).mean(dim=1, keepdim=True) + eps) * gain


task = rows_task(
    "rmsnorm",
    reference,
    lambda given, y: torch.mul(
        given["x"] * torch.rsqrt((given["x"] * given["x"]).mean(dim=1, keepdim=True) + given["eps"]),
        given["gain"],
        out=y,
    ),
    inputs=(Tensor("x", ("R", "C")), Tensor("gain", ("C",))),
    precision=Precision(reduction="C"),
    epsilon=True,
)
