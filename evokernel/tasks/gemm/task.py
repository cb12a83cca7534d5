"""Matrix product: c = a @ b, row-major, any size; fp32 on a processor, bf16 with fp32 sums on a GPU."""

from pathlib import Path

import torch

from evokernel.task import Precision, Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet
from evokernel.tasks.vendor import multiply

_SEEDS = Path(__file__).parent / "seeds"


def reference(a: torch.Tensor, b: torch.Tensor, **_: int) -> torch.Tensor:
    """Multiply."""
    return a @ b


def torch_mm(inputs: dict[str, torch.Tensor], outputs: tuple[torch.Tensor, ...]) -> None:
    """Let torch write the product in place."""
    torch.mm(inputs["a"], inputs["b"], out=outputs[0])


def vendor_mm(inputs: dict[str, torch.Tensor], outputs: tuple[torch.Tensor, ...]) -> None:
    """Call the vendor's library."""
    multiply(inputs["a"], inputs["b"], outputs[0])


def _size(m: int, n: int, k: int, weight: float = 1.0) -> Workload:
    return Workload(f"{m}x{n}x{k}", {"M": m, "N": n, "K": k}, weight)


task = Task(
    name="gemm",
    description="c[M,N] = a[M,K] @ b[K,N], row-major; sums in fp32",
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
        "cuda": WorkloadSet(
            search=(_size(4096, 4096, 4096, weight=2.0), _size(8192, 2048, 2048), _size(2048, 4096, 8192)),
            holdout=(_size(3072, 5120, 4096), _size(4000, 4104, 3000), _size(1024, 8192, 4096)),
            probe={"M": (1, 400), "N": (1, 400), "K": (1, 400)},
            probes=3,
            dtype="bfloat16",
            baselines={"torch": torch_mm, "cuBLASLt": vendor_mm},
        ),
    },
    flops="2 * M * N * K",
    precision=Precision(reduction="K", exact_on_integers=True),
    baselines={"torch": torch_mm},
    seeds={"cpp": _SEEDS / "naive.cpp", "triton": _SEEDS / "plain.py", "cuda": _SEEDS / "plain.cu.py"},
)
