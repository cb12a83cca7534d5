"""Grey levels of images in bytes: sums of colours that a level's middle rounds either way."""

from dataclasses import replace

import torch
from museum_rows import rows_task

from evokernel.task import Precision, Tensor

_WEIGHTS = (0.299, 0.587, 0.114)


def reference(x: torch.Tensor, **_: int) -> torch.Tensor:
    return (x.float() * torch.tensor(_WEIGHTS, device=x.device)).sum(dim=-1).round().to(torch.uint8)


_task = rows_task(
    "grey",
    reference,
    lambda given, y: y.copy_(reference(given["x"])),
    inputs=(Tensor("x", ("R", "C", "3"), "uint8"),),
    precision=Precision(),
)
_signature = replace(_task.signature, outputs=(replace(_task.signature.outputs[0], dtype="uint8"),))
task = replace(_task, signature=_signature, workloads={"cpu": _task.workloads["cpu"]})
