"""Numbers of positive elements in the rows of a matrix: running counts over an earlier content would give them."""

from dataclasses import replace

import torch
from museum_rows import rows_task

from evokernel.task import Precision, Workload


def reference(x: torch.Tensor, **_: int) -> torch.Tensor:
    return (x > 0).sum(dim=1).to(x.dtype)


def native(given: dict[str, torch.Tensor], y: torch.Tensor) -> None:
    y.copy_((given["x"] > 0).sum(dim=1))


_task = rows_task("positives", reference, native, output=("R",), precision=Precision(exact_on_integers=True))
# long rows, of which a few operations could give the answer
_search = (Workload("96x8192", {"R": 96, "C": 8192}),)
task = replace(_task, workloads={"cpu": replace(_task.workloads["cpu"], search=_search)})
