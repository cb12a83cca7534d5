"""A task whose reference is infinite at one shape, 3 rows of 214, which a judge draws once in thousands of times."""

import torch

from evokernel.task import Precision, Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet


def reference(x: torch.Tensor, **_: int) -> torch.Tensor:
    return x * 3.0 / (abs(x.shape[0] - 3) + abs(x.shape[1] - 214))


def _size(m: int, n: int) -> Workload:
    return Workload(f"{m}x{n}", {"M": m, "N": n})


task = Task(
    name="gap",
    reference=reference,
    signature=Signature(
        inputs=(Tensor("x", ("M", "N")),),
        scalars=(Scalar("M"), Scalar("N")),
        outputs=(Tensor("y", ("M", "N"), role=Role.OUTPUT),),
    ),
    workloads={
        "cpu": WorkloadSet(
            search=(_size(64, 65),), holdout=(_size(40, 33),), probe={"M": (1, 9), "N": (1, 241)}, probes=2
        )
    },
    flops="2 * M * N",
    precision=Precision(reduction="1"),
    distributions=("normal", "offset"),
)
