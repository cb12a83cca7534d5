"""What the museum's tasks on rows share: sizes that are judged in a second or two, on a processor and on a GPU."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from evokernel.task import Precision, Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet

EPSILON = 1e-5


def rows_task(
    name: str,
    reference: Callable[..., torch.Tensor],
    native: Callable[[Mapping[str, Any], torch.Tensor], object],
    *,
    inputs: tuple[Tensor, ...] = (Tensor("x", ("R", "C")),),
    output: tuple[str, ...] = ("R", "C"),
    precision: Precision,
    epsilon: bool = False,
    dtype: str | None = None,
    devices: tuple[str, ...] = ("cpu", "cuda"),
) -> Task:
    """Return a task on the rows of a matrix `x`; `native` is torch's own operation, which writes in place.

    With a `dtype` other than fp32 it is for GPUs alone.
    """
    constants: dict[str, float] = {"eps": EPSILON} if epsilon else {}

    def size(rows: int, columns: int) -> Workload:
        return Workload(f"{rows}x{columns}", {"R": rows, "C": columns, **constants})

    on_processor = WorkloadSet(
        search=(size(128, 512), size(48, 1000)),
        holdout=(size(77, 640),),
        probe={"R": (1, 19), "C": (1, 300)},
        probes=4,
    )
    on_gpu = WorkloadSet(
        search=(size(4096, 1024), size(1000, 3000)),
        holdout=(size(2048, 2047),),
        probe={"R": (1, 70), "C": (1, 1500)},
        probes=3,
        dtype=dtype,
    )
    offered = {"cpu": on_processor, "cuda": on_gpu}
    return Task(
        name=name,
        reference=reference,
        signature=Signature(
            inputs=inputs,
            scalars=(Scalar("R"), Scalar("C"), *(Scalar(each, "float32") for each in constants)),
            outputs=(Tensor("y", output, role=Role.OUTPUT),),
        ),
        workloads={device: offered[device] for device in (("cuda",) if dtype else devices)},
        flops="R * C",
        precision=precision,
        baselines={"torch": lambda given, outputs: native(given, outputs[0])},
    )
