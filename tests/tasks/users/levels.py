"""A look-up in a table of 16 numbers, as of quantised weights: the task's constants keep its index within the table."""

from pathlib import Path

import torch

from evokernel.task import Precision, Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet

SEEDS = Path(__file__).parent / "seeds"
SQUARES = torch.arange(16.0) ** 2


def reference(packed: torch.Tensor, **_: int) -> torch.Tensor:
    codes = torch.stack((packed >> 4, packed & 15), -1).reshape(-1).long()
    return SQUARES.to(packed.device)[codes].to(torch.get_default_dtype())


def _size(count: int) -> Workload:
    return Workload(str(count), {"N": count})


task = Task(
    name="levels",
    description="y[2 * N] = squares of the upper and the lower four bits of packed[N]",
    reference=reference,
    signature=Signature(
        inputs=(Tensor("packed", ("N",), "uint8"),),
        scalars=(Scalar("N"),),
        outputs=(Tensor("y", ("2 * N",), role=Role.OUTPUT),),
    ),
    workloads={
        "cpu": WorkloadSet(search=(_size(1 << 16),), holdout=(_size(50_001),), probe={"N": (1, 300)}),
        "cuda": WorkloadSet(search=(_size(1 << 22),), holdout=(_size(3_000_001),), probe={"N": (1, 3000)}),
    },
    flops="2 * N",
    precision=Precision(reduction=1),
    seeds={"cpp": SEEDS / "levels.cpp", "triton": SEEDS / "levels.triton.py"},
)
