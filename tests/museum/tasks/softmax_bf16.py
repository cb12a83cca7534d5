"""Softmax over the rows of a matrix in bf16."""

import torch
from museum_rows import rows_task
from softmax import reference

from evokernel.task import Precision

task = rows_task(
    "softmax_bf16",
    reference,
    lambda given, y: torch.softmax(given["x"], dim=1, out=y),
    precision=Precision(reduction="C"),
    dtype="bfloat16",
)
