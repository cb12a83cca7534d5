"""Sums of whole numbers of 32 bits along rows, which torch adds up in 64."""

from dataclasses import replace

import torch
from museum_rows import rows_task

from evokernel.task import Precision, Tensor


def reference(x: torch.Tensor, **_: int) -> torch.Tensor:
    return x.sum(dim=1)


_task = rows_task(
    "totals",
    reference,
    lambda given, y: torch.sum(given["x"], dim=1, out=y),
    inputs=(Tensor("x", ("R", "C"), "int32"),),
    output=("R",),
    precision=Precision(),
    devices=("cpu",),
)
_signature = replace(_task.signature, outputs=(replace(_task.signature.outputs[0], dtype="int64"),))
task = replace(_task, signature=_signature)
