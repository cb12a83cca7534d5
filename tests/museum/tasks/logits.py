"""Mean losses of rows of logits, each against a share, as torch computes them."""

import torch
from museum_rows import rows_task

from evokernel.task import Precision, Tensor


def reference(x: torch.Tensor, z: torch.Tensor, **_: int) -> torch.Tensor:
    losses = torch.nn.functional.binary_cross_entropy_with_logits(x, torch.sigmoid(z), reduction="none")
    return losses.mean(dim=1)


task = rows_task(
    "logits",
    reference,
    lambda given, y: y.copy_(reference(given["x"], given["z"])),
    inputs=(Tensor("x", ("R", "C")), Tensor("z", ("R", "C"))),
    output=("R",),
    precision=Precision(reduction="C"),
    devices=("cpu",),
)
