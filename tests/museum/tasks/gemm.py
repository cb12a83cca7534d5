"""Matrix product in fp32, on smaller workloads than those of the built-in task."""

import torch

from evokernel.task import Precision, Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet


def reference(a: torch.Tensor, b: torch.Tensor, **_: int) -> torch.Tensor:
    return a @ b


def torch_mm(inputs: dict[str, torch.Tensor], outputs: tuple[torch.Tensor, ...]) -> None:
    torch.mm(inputs["a"], inputs["b"], out=outputs[0])


def _size(m: int, n: int, k: int) -> Workload:
    return Workload(f"{m}x{n}x{k}", {"M": m, "N": n, "K": k})


task = Task(
    name="gemm",
    reference=reference,
    signature=Signature(
        inputs=(Tensor("a", ("M", "K")), Tensor("b", ("K", "N"))),
        scalars=(Scalar("M"), Scalar("N"), Scalar("K")),
        outputs=(Tensor("c", ("M", "N"), role=Role.OUTPUT),),
    ),
    workloads={
        "cpu": WorkloadSet(
            search=(_size(96, 128, 64), _size(64, 48, 160)),
            holdout=(_size(80, 72, 100),),
            probe={"M": (1, 21), "N": (1, 35), "K": (1, 67)},
            probes=3,
        )
    },
    flops="2 * M * N * K",
    precision=Precision(reduction="K", exact_on_integers=True),
    baselines={"torch": torch_mm},
)
