"""Sums of the rows of a matrix whose sizes are powers of two in the search, and odd in all held-out shapes."""

from dataclasses import replace

import torch
from museum_rows import rows_task

from evokernel.task import Precision, Workload


def reference(x: torch.Tensor, **_: int) -> torch.Tensor:
    return x.sum(dim=1)


_task = rows_task(
    "even_sums",
    reference,
    lambda given, y: y.copy_(reference(given["x"])),
    output=("R",),
    precision=Precision(reduction="C", exact_on_integers=True),
    devices=("cpu",),
)
_search = (Workload("128x512", {"R": 128, "C": 512}), Workload("64x1024", {"R": 64, "C": 1024}))
_held_out = (Workload("77x641", {"R": 77, "C": 641}),)
task = replace(_task, workloads={"cpu": replace(_task.workloads["cpu"], search=_search, holdout=_held_out)})
