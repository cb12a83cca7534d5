"""A matrix product of operands as users have them: rows of a are padded to LDA elements, b is transposed."""

from pathlib import Path

import torch

from evokernel.task import Precision, Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet

SEEDS = Path(__file__).parent / "seeds"


def reference(a: torch.Tensor, b: torch.Tensor, **_: int) -> torch.Tensor:
    return a @ b


def _size(m: int, n: int, k: int, *, pad: int) -> Workload:
    return Workload(f"{m}x{n}x{k}+{pad}", {"M": m, "N": n, "K": k, "LDA": k + pad, "LDB": k + 2 * pad})


task = Task(
    name="strided_gemm",
    description="c[M,N] = a[M,K] @ b[K,N], rows of a padded, b transposed",
    reference=reference,
    signature=Signature(
        inputs=(Tensor("a", ("M", "K"), strides=("LDA", 1)), Tensor("b", ("K", "N"), strides=(1, "LDB"))),
        scalars=(Scalar("M"), Scalar("N"), Scalar("K"), Scalar("LDA"), Scalar("LDB")),
        outputs=(Tensor("c", ("M", "N"), role=Role.OUTPUT),),
    ),
    workloads={
        "cpu": WorkloadSet(
            search=(_size(64, 96, 80, pad=16),),
            holdout=(_size(70, 50, 90, pad=3),),
            probe={"M": (1, 40), "N": (1, 40), "K": (1, 60), "LDA": ("K", "K + 9"), "LDB": ("K", "K + 20")},
            probes=2,
        ),
        "cuda": WorkloadSet(
            search=(_size(512, 512, 512, pad=64),),
            holdout=(_size(500, 300, 700, pad=8),),
            probe={"M": (1, 200), "N": (1, 200), "K": (1, 300), "LDA": ("K", "K + 64"), "LDB": ("K", "K + 9")},
            probes=3,
            dtype="bfloat16",
            further_dtypes=("float16", "float32"),
        ),
    },
    flops="2 * M * N * K",
    precision=Precision(reduction="K", exact_on_integers=True),
    seeds={
        "cpp": SEEDS / "strided_gemm.cpp",
        "triton": SEEDS / "strided_gemm.triton.py",
        "cuda": SEEDS / "strided_gemm.cu.py",
    },
)
