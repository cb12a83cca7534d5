"""Rows of whole numbers in ascending order."""

from dataclasses import replace

import torch
from museum_rows import rows_task

from evokernel.task import Precision, Tensor


def reference(x: torch.Tensor, **_: int) -> torch.Tensor:
    return x.sort(dim=1).values


_task = rows_task(
    "ordered",
    reference,
    lambda given, y: y.copy_(given["x"].sort(dim=1).values),
    inputs=(Tensor("x", ("R", "C"), "int64"),),
    precision=Precision(),
)
_signature = replace(_task.signature, outputs=(replace(_task.signature.outputs[0], dtype="int64"),))
task = replace(_task, signature=_signature, workloads={"cpu": _task.workloads["cpu"]})
