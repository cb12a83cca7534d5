"""Layer normalisation of the rows of a matrix, with gain and shift for each column, in fp32."""

import torch
from museum_rows import rows_task

from evokernel.task import Precision, Tensor


def reference(x: torch.Tensor, gain: torch.Tensor, shift: torch.Tensor, eps: float, **_: int) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x, x.shape[1:], gain, shift, eps)


task = rows_task(
    "layernorm",
    reference,
    lambda given, y: y.copy_(
        torch.nn.functional.layer_norm(given["x"], given["x"].shape[1:], given["gain"], given["shift"], given["eps"])
    ),
    inputs=(Tensor("x", ("R", "C")), Tensor("gain", ("C",)), Tensor("shift", ("C",))),
    precision=Precision(reduction="C"),
    epsilon=True,
)
