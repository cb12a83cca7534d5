"""How far two whole numbers of 32 bits are apart, in 64."""

from dataclasses import replace

import torch
from museum_rows import rows_task

from evokernel.task import Precision, Tensor


def reference(x: torch.Tensor, z: torch.Tensor, **_: int) -> torch.Tensor:
    return (x.long() - z.long()).abs()


_task = rows_task(
    "gaps",
    reference,
    lambda given, y: y.copy_(reference(given["x"], given["z"])),
    inputs=(Tensor("x", ("R", "C"), "int32"), Tensor("z", ("R", "C"), "int32")),
    precision=Precision(),
    devices=("cpu",),
)
_signature = replace(_task.signature, outputs=(replace(_task.signature.outputs[0], dtype="int64"),))
task = replace(_task, signature=_signature)
