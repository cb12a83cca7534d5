"""The built-in histogram on smaller workloads: integers, exact, and often added up by atomic operations."""

from dataclasses import replace

from evokernel.task import Workload, WorkloadSet
from evokernel.tasks import load_task


def _size(numbers: int, bins: int) -> Workload:
    return Workload(f"{numbers}x{bins}", {"N": numbers, "B": bins})


_known = load_task("histogram")
task = replace(
    _known,
    workloads={
        "cpu": WorkloadSet(
            search=(_size(1 << 17, 256), _size(1 << 16, 1024)),
            holdout=(_size(70001, 500),),
            probe={"N": (1, 5000), "B": (1, 700)},
            probes=3,
        ),
        "cuda": WorkloadSet(
            search=(_size(1 << 22, 256), _size(1 << 21, 2048)),
            holdout=(_size(1000003, 1000),),
            probe={"N": (1, 5000), "B": (1, 700)},
            probes=3,
            baselines={"torch": _known.workloads["cuda"].baselines["torch"]},  # type: ignore[index]
        ),
    },
    seeds={},
)
