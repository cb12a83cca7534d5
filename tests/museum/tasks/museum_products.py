"""What the museum's matrix products share: sizes that are judged in a second or two, on a processor and on a GPU."""

import torch

from evokernel.task import Precision, Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet


def reference(a: torch.Tensor, b: torch.Tensor, **_: int) -> torch.Tensor:
    return a @ b


def torch_mm(inputs: dict[str, torch.Tensor], outputs: tuple[torch.Tensor, ...]) -> None:
    torch.mm(inputs["a"], inputs["b"], out=outputs[0])


def _size(m: int, n: int, k: int) -> Workload:
    return Workload(f"{m}x{n}x{k}", {"M": m, "N": n, "K": k})


def product_task(name: str, *, dtype: str | None = None, allow_tf32: bool = False) -> Task:
    """Return a product in fp32, on a GPU in `dtype`; one with a rule of its own is for GPUs alone."""
    on_processor = WorkloadSet(
        search=(_size(96, 128, 64), _size(64, 48, 160)),
        holdout=(_size(80, 72, 100),),
        probe={"M": (1, 21), "N": (1, 35), "K": (1, 67)},
        probes=3,
    )
    on_gpu = WorkloadSet(
        search=(_size(1024, 1024, 1024), _size(512, 2048, 768)),
        holdout=(_size(1000, 777, 640),),
        probe={"M": (1, 200), "N": (1, 200), "K": (1, 300)},
        probes=3,
        dtype=dtype,
    )
    return Task(
        name=name,
        reference=reference,
        signature=Signature(
            inputs=(Tensor("a", ("M", "K")), Tensor("b", ("K", "N"))),
            scalars=(Scalar("M"), Scalar("N"), Scalar("K")),
            outputs=(Tensor("c", ("M", "N"), role=Role.OUTPUT),),
        ),
        workloads={"cuda": on_gpu} if dtype or allow_tf32 else {"cpu": on_processor, "cuda": on_gpu},
        flops="2 * M * N * K",
        precision=Precision(reduction="K", exact_on_integers=True, allow_tf32=allow_tf32),
        baselines={"torch": torch_mm},
    )
