"""Softmax over the rows of a matrix in fp32."""

from pathlib import Path

import torch

from evokernel.task import Precision, Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet


def reference(x: torch.Tensor, **_: int) -> torch.Tensor:
    """Normalise the exponentials of each row."""
    return torch.softmax(x, dim=1)


def torch_softmax(inputs: dict[str, torch.Tensor], outputs: tuple[torch.Tensor, ...]) -> None:
    """Let torch write the result in place."""
    torch.softmax(inputs["x"], dim=1, out=outputs[0])


def _size(rows: int, columns: int, weight: float = 1.0) -> Workload:
    return Workload(f"{rows}x{columns}", {"R": rows, "C": columns}, weight)


task = Task(
    name="softmax",
    description="y[R,C] = softmax of each row of x[R,C], fp32",
    reference=reference,
    signature=Signature(
        inputs=(Tensor("x", ("R", "C")),),
        scalars=(Scalar("R"), Scalar("C")),
        outputs=(Tensor("y", ("R", "C"), role=Role.OUTPUT),),
    ),
    workloads={
        "cpu": WorkloadSet(
            search=(_size(1024, 1024, weight=2.0), _size(256, 4096), _size(2048, 256)),
            holdout=(_size(777, 1000), _size(128, 8192), _size(4096, 128)),
            probe={"R": (1, 37), "C": (1, 1100)},
        ),
    },
    flops="5 * R * C",
    precision=Precision(reduction="C"),
    baselines={"torch": torch_softmax},
    seeds={"cpp": Path(__file__).parent / "seeds" / "naive.cpp"},
)
