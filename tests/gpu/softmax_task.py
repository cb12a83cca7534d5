"""Softmax against torch alone, small, at even and at odd sizes."""

from dataclasses import replace

from evokernel.task import Workload
from evokernel.tasks.softmax.task import task as softmax


def size(rows: int, columns: int) -> Workload:
    return Workload(f"{rows}x{columns}", {"R": rows, "C": columns})


task = replace(
    softmax,
    name="small_softmax",
    workloads={
        "cuda": replace(
            softmax.workloads["cuda"],
            search=(size(512, 1024), size(301, 1537)),
            holdout=(size(640, 768),),
            baselines=softmax.baselines,
        )
    },
)
