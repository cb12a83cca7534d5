"""A task with everything a signature may have: results in place, several outputs, whole numbers, fp64."""

import torch

from evokernel.task import Precision, Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet


def reference(
    x: torch.Tensor,
    pick: torch.Tensor,
    total: torch.Tensor,
    *,
    V: int,  # noqa: N803 - the name in the signature
    **_: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return total + x.sum(dim=1, dtype=torch.float64), x * 0.3, (3 * pick + 1) % V


def _size(rows: int, columns: int, values: int) -> Workload:
    return Workload(f"{rows}x{columns}", {"R": rows, "C": columns, "V": values})


task = Task(
    name="mixed",
    description="total[R] += sum of its row of x; y[R,C] = 0.3 * x; key[R] = (3 * pick + 1) mod V",
    reference=reference,
    signature=Signature(
        inputs=(
            Tensor("x", ("R", "C")),
            Tensor("pick", ("R",), dtype="int32", below="V"),
            Tensor("total", ("R",), dtype="float64", role=Role.INOUT),
        ),
        scalars=(Scalar("R"), Scalar("C"), Scalar("V")),
        outputs=(
            Tensor("y", ("R", "C + 1 - 1"), role=Role.OUTPUT),
            Tensor("key", ("R",), dtype="int32", role=Role.OUTPUT),
        ),
    ),
    workloads={
        "cpu": WorkloadSet(
            search=(_size(64, 96, 50),),
            holdout=(_size(40, 133, 20),),
            probe={"R": (2, 40), "C": (2, 90), "V": (5, 90)},
            probes=2,
        )
    },
    flops="2 * R * C",
    precision=Precision(reduction="C"),
)
