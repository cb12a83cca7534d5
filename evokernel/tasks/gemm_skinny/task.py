"""Matrix product with few rows, as when a language model writes one token for each of a few people: the right-hand
matrix is read once and used sixteen times, so the main memory is the limit."""

from dataclasses import replace

from evokernel.task import Workload, WorkloadSet
from evokernel.tasks.gemm.task import task as gemm


def _size(m: int, n: int, k: int, weight: float = 1.0) -> Workload:
    return Workload(f"{m}x{n}x{k}", {"M": m, "N": n, "K": k}, weight)


task = replace(
    gemm,
    name="gemm_skinny",
    description="c[M,N] = a[M,K] @ b[K,N], row-major, M far smaller than N and K; sums in fp32",
    workloads={
        "cuda": WorkloadSet(
            search=(_size(16, 8192, 8192, weight=2.0), _size(16, 4096, 14336)),
            holdout=(_size(8, 8192, 8192), _size(16, 14336, 4096), _size(24, 6000, 5000)),
            probe={"M": (1, 40), "N": (1, 1200), "K": (1, 1500)},
            probes=3,
            dtype="bfloat16",
            baselines=gemm.workloads["cuda"].baselines,
        ),
    },
    seeds={language: gemm.seeds[language] for language in ("triton", "cuda")},
)
