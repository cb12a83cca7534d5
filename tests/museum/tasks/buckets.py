"""The bucket of each key of 64 bits: what division by the number of buckets leaves."""

from dataclasses import replace

import torch
from museum_rows import rows_task

from evokernel.task import Precision, Scalar, Tensor


def reference(x: torch.Tensor, **sizes: int) -> torch.Tensor:
    return x.remainder(sizes["B"])


_task = rows_task(
    "buckets",
    reference,
    lambda given, y: y.copy_(reference(given["x"], B=given["B"])),
    inputs=(Tensor("x", ("R", "C"), "int64"),),
    precision=Precision(),
    devices=("cpu",),
)
_signature = replace(
    _task.signature,
    scalars=(*_task.signature.scalars, Scalar("B")),
    outputs=(replace(_task.signature.outputs[0], dtype="int64"),),
)
_offered = _task.workloads["cpu"]
_sized = replace(
    _offered,
    search=tuple(replace(each, dims={**each.dims, "B": 1009}) for each in _offered.search),
    holdout=tuple(replace(each, dims={**each.dims, "B": 64}) for each in _offered.holdout),
    probe={**_offered.probe, "B": (2, 2000)},
)
task = replace(_task, signature=_signature, workloads={"cpu": _sized})
