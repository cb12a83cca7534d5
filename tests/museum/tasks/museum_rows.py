"""What the museum's tasks share: fp32 on a processor, sizes that are judged in a second or two."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from evokernel.task import Precision, Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet

EPSILON = 1e-5


def rows_task(
    name: str,
    reference: Callable[..., torch.Tensor],
    native: Callable[[Mapping[str, Any], torch.Tensor], object],
    *,
    inputs: tuple[Tensor, ...] = (Tensor("x", ("R", "C")),),
    output: tuple[str, ...] = ("R", "C"),
    precision: Precision,
    epsilon: bool = False,
) -> Task:
    """Return a task on the rows of a matrix `x`; `native` is torch's own operation, which writes in place."""
    constants: dict[str, float] = {"eps": EPSILON} if epsilon else {}

    def size(rows: int, columns: int) -> Workload:
        return Workload(f"{rows}x{columns}", {"R": rows, "C": columns, **constants})

    return Task(
        name=name,
        reference=reference,
        signature=Signature(
            inputs=inputs,
            scalars=(Scalar("R"), Scalar("C"), *(Scalar(each, "float32") for each in constants)),
            outputs=(Tensor("y", output, role=Role.OUTPUT),),
        ),
        workloads={
            "cpu": WorkloadSet(
                search=(size(128, 512), size(48, 1000)),
                holdout=(size(77, 640),),
                probe={"R": (1, 19), "C": (1, 300)},
                probes=3,
            )
        },
        flops="R * C",
        precision=precision,
        baselines={"torch": lambda given, outputs: native(given, outputs[0])},
    )
