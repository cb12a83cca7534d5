"""The matrix product with all its baselines, small."""

from dataclasses import replace

from evokernel.task import Workload
from evokernel.tasks.gemm.task import task as gemm


def size(m: int, n: int, k: int) -> Workload:
    return Workload(f"{m}x{n}x{k}", {"M": m, "N": n, "K": k})


task = replace(
    gemm,
    name="small_gemm",
    workloads={
        "cuda": replace(
            gemm.workloads["cuda"], search=(size(512, 512, 512), size(16, 2048, 1024)), holdout=(size(300, 392, 520),)
        )
    },
)
