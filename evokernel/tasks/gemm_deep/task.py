"""Matrix product with a long sum and a small result: fewer tiles than multiprocessors, so K must be shared out."""

from dataclasses import replace

from evokernel.task import Workload, WorkloadSet
from evokernel.tasks.gemm.task import task as gemm


def _size(m: int, n: int, k: int, weight: float = 1.0) -> Workload:
    return Workload(f"{m}x{n}x{k}", {"M": m, "N": n, "K": k}, weight)


task = replace(
    gemm,
    name="gemm_deep",
    description="c[M,N] = a[M,K] @ b[K,N], row-major, K far longer than M and N; sums in fp32",
    workloads={
        "cuda": WorkloadSet(
            search=(_size(384, 384, 16384, weight=2.0), _size(256, 512, 16384)),
            holdout=(_size(384, 256, 12288), _size(512, 512, 8192), _size(300, 392, 16000)),
            probe={"M": (1, 400), "N": (1, 400), "K": (1, 2000)},
            probes=3,
            dtype="bfloat16",
            baselines=gemm.workloads["cuda"].baselines,
        ),
    },
    seeds={language: gemm.seeds[language] for language in ("triton", "cuda")},
)
