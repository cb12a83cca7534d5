"""Softmax over the rows of a matrix in fp32."""

from pathlib import Path

import torch

from evokernel.task import Precision, Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet
from evokernel.tasks.compiled import compiled

_SEEDS = Path(__file__).parent / "seeds"


def reference(x: torch.Tensor, **_: int) -> torch.Tensor:
    """Normalise the exponentials of each row."""
    return torch.softmax(x, dim=1)


def torch_softmax(inputs: dict[str, torch.Tensor], outputs: tuple[torch.Tensor, ...]) -> None:
    """Let torch write the result in place."""
    torch.softmax(inputs["x"], dim=1, out=outputs[0])


def written_out(inputs: dict[str, torch.Tensor], outputs: tuple[torch.Tensor, ...]) -> None:
    """Say it in the compiler's way."""
    outputs[0].copy_(torch.softmax(inputs["x"], dim=1))


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
        "cuda": WorkloadSet(
            search=(_size(4096, 8192, weight=2.0), _size(16384, 1024), _size(2048, 16384)),
            holdout=(_size(8192, 4096), _size(5000, 3001), _size(1024, 32768)),
            probe={"R": (1, 70), "C": (1, 5000)},
            probes=3,
            baselines={"torch": torch_softmax, "torch.compile": compiled(written_out)},
        ),
    },
    flops="5 * R * C",
    precision=Precision(reduction="C"),
    baselines={"torch": torch_softmax},
    seeds={"cpp": _SEEDS / "naive.cpp", "triton": _SEEDS / "plain.py", "cuda": _SEEDS / "plain.cu.py"},
)
