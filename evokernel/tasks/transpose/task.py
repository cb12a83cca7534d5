"""Transposition of a matrix: rows become columns."""

from pathlib import Path

import torch

from evokernel.task import Precision, Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet
from evokernel.tasks.compiled import compiled

_SEEDS = Path(__file__).parent / "seeds"


def reference(x: torch.Tensor, **_: int) -> torch.Tensor:
    """Exchange rows and columns."""
    return x.T.contiguous()


def torch_transpose(inputs: dict[str, torch.Tensor], outputs: tuple[torch.Tensor, ...]) -> None:
    """Let torch write the result in place."""
    outputs[0].copy_(inputs["x"].T)


def _size(rows: int, columns: int, weight: float = 1.0) -> Workload:
    return Workload(f"{rows}x{columns}", {"R": rows, "C": columns}, weight)


task = Task(
    name="transpose",
    description="y[C,R] = x[R,C] with rows and columns exchanged",
    reference=reference,
    signature=Signature(
        inputs=(Tensor("x", ("R", "C")),),
        scalars=(Scalar("R"), Scalar("C")),
        outputs=(Tensor("y", ("C", "R"), role=Role.OUTPUT),),
    ),
    workloads={
        "cpu": WorkloadSet(
            search=(_size(1024, 1024, weight=2.0), _size(256, 4096), _size(2048, 300)),
            holdout=(_size(777, 1000), _size(128, 8192), _size(4096, 128)),
            probe={"R": (1, 150), "C": (1, 150)},
        ),
        "cuda": WorkloadSet(
            search=(_size(8192, 8192, weight=2.0), _size(4096, 14336), _size(32000, 2048)),
            holdout=(_size(4096, 4096), _size(5000, 3001), _size(1024, 32768)),
            probe={"R": (1, 900), "C": (1, 900)},
            probes=3,
            dtype="bfloat16",
            baselines={"torch": torch_transpose, "torch.compile": compiled(torch_transpose)},
        ),
    },
    flops="0",
    precision=Precision(exact_on_integers=True),
    baselines={"torch": torch_transpose},
    seeds={"cpp": _SEEDS / "plain.cpp", "triton": _SEEDS / "plain.py"},
)
