"""Maxima of the rows of a matrix in fp32."""

from dataclasses import replace

import torch
from museum_rows import rows_task

from evokernel.task import Precision


def reference(x: torch.Tensor, **_: int) -> torch.Tensor:
    return x.amax(dim=1)


_task = rows_task(
    "row_maximum",
    reference,
    lambda given, y: torch.amax(given["x"], dim=1, out=y),
    output=("R",),
    precision=Precision(exact_on_integers=True),
)
task = replace(_task, workloads={"cpu": _task.workloads["cpu"]})
