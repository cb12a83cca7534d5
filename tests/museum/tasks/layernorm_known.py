"""The built-in layer normalisation on smaller workloads: fp32 on a processor, bf16 on a GPU, as there."""

from dataclasses import replace

from evokernel.task import Workload
from evokernel.tasks import load_task


def _size(rows: int, columns: int) -> Workload:
    return Workload(f"{rows}x{columns}", {"R": rows, "C": columns, "eps": 1e-5})


_known = load_task("layernorm")
task = replace(
    _known,
    workloads={
        "cpu": replace(
            _known.workloads["cpu"],
            search=(_size(128, 512), _size(48, 1000)),
            holdout=(_size(77, 640),),
            probe={"R": (1, 19), "C": (2, 300)},
            probes=3,
        ),
        "cuda": replace(
            _known.workloads["cuda"],
            search=(_size(4096, 1024), _size(1000, 3000)),
            holdout=(_size(2048, 2047),),
            probe={"R": (1, 70), "C": (2, 1500)},
        ),
    },
    seeds={},
)
