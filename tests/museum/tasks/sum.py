"""Sums of the rows of a matrix in fp32."""

import torch
from museum_rows import rows_task

from evokernel.task import Precision


def reference(x: torch.Tensor, **_: int) -> torch.Tensor:
    return x.sum(dim=1)


task = rows_task(
    "sum",
    reference,
    lambda given, y: torch.sum(given["x"], dim=1, out=y),
    output=("R",),
    precision=Precision(reduction="C", exact_on_integers=True),
)
