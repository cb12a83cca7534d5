"""Matrix product in fp32: c = a @ b, row-major, any size."""

from pathlib import Path

import torch

from evokernel.task import Precision, Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet


def reference(a: torch.Tensor, b: torch.Tensor, **_: int) -> torch.Tensor:
    """Multiply."""
    return a @ b


def torch_mm(inputs: dict[str, torch.Tensor], outputs: tuple[torch.Tensor, ...]) -> None:
    """Let torch write the product in place."""
    torch.mm(inputs["a"], inputs["b"], out=outputs[0])


def _size(m: int, n: int, k: int, weight: float = 1.0) -> Workload:
    return Workload(f"{m}x{n}x{k}", {"M": m, "N": n, "K": k}, weight)


task = Task(
    name="gemm",
    description="c[M,N] = a[M,K] @ b[K,N], fp32, row-major",
    reference=reference,
    signature=Signature(
        inputs=(Tensor("a", ("M", "K")), Tensor("b", ("K", "N"))),
        scalars=(Scalar("M"), Scalar("N"), Scalar("K")),
        outputs=(Tensor("c", ("M", "N"), role=Role.OUTPUT),),
    ),
    workloads={
        "cpu": WorkloadSet(
            search=(_size(512, 512, 512, weight=2.0), _size(384, 1024, 256), _size(640, 512, 768)),
            holdout=(_size(448, 576, 320), _size(500, 700, 300), _size(1024, 256, 512)),
            probe={"M": (1, 97), "N": (1, 131), "K": (1, 193)},
        ),
    },
    flops="2 * M * N * K",
    precision=Precision(reduction="K", exact_on_integers=True),
    baselines={"torch": torch_mm},
    seeds={"cpp": Path(__file__).parent / "seeds" / "naive.cpp"},
)
