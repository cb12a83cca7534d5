"""A task small enough for hundreds of evaluations a minute: c = a @ b."""

from pathlib import Path

import torch

from evokernel.task import Precision, Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet


def reference(a: torch.Tensor, b: torch.Tensor, **_: int) -> torch.Tensor:
    return a @ b


def _size(m: int, n: int, k: int) -> Workload:
    return Workload(f"{m}x{n}x{k}", {"M": m, "N": n, "K": k})


task = Task(
    name="small",
    reference=reference,
    signature=Signature(
        inputs=(Tensor("a", ("M", "K")), Tensor("b", ("K", "N"))),
        scalars=(Scalar("M"), Scalar("N"), Scalar("K")),
        outputs=(Tensor("c", ("M", "N"), role=Role.OUTPUT),),
    ),
    workloads={
        "cpu": WorkloadSet(
            search=(_size(48, 64, 32),),
            holdout=(_size(40, 33, 48),),
            probe={"M": (1, 9), "N": (1, 17), "K": (1, 33)},
            probes=2,
        )
    },
    flops="2 * M * N * K",
    precision=Precision(reduction="K", exact_on_integers=True),
    distributions=("normal", "integers01", "needles"),
    seeds={"cpp": Path(__file__).parents[2] / "evokernel" / "tasks" / "gemm" / "seeds" / "naive.cpp"},
)
