"""Products of two matrices, element by element, in bfloat16."""

from dataclasses import replace

import torch
from museum_rows import rows_task

from evokernel.task import Precision, Tensor


def reference(x: torch.Tensor, z: torch.Tensor, **_: int) -> torch.Tensor:
    return x * z


_task = rows_task(
    "narrow_products",
    reference,
    lambda given, y: torch.mul(given["x"], given["z"], out=y),
    inputs=(Tensor("x", ("R", "C"), "bfloat16"), Tensor("z", ("R", "C"), "bfloat16")),
    precision=Precision(),
    devices=("cpu",),
)
_signature = replace(_task.signature, outputs=(replace(_task.signature.outputs[0], dtype="bfloat16"),))
task = replace(_task, signature=_signature)
