"""A small task of one elementwise kernel, for tests that need a GPU."""

import torch

from evokernel.task import Precision, Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet


def reference(x: torch.Tensor, **_: int) -> torch.Tensor:
    return 2 * x + 1


task = Task(
    name="scale",
    reference=reference,
    signature=Signature(
        inputs=(Tensor("x", ("R", "C")),),
        scalars=(Scalar("R"), Scalar("C")),
        outputs=(Tensor("y", ("R", "C"), role=Role.OUTPUT),),
    ),
    workloads={
        "cuda": WorkloadSet(
            search=(Workload("1024x1024", {"R": 1024, "C": 1024}),),
            holdout=(Workload("1000x777", {"R": 1000, "C": 777}),),
            probe={"R": (1, 40), "C": (1, 300)},
            probes=2,
        )
    },
    flops="2 * R * C",
    precision=Precision(exact_on_integers=True),
)
