"""How often each number occurs: a histogram of integers with one bin for each value."""

from pathlib import Path

import torch

from evokernel.task import Precision, Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet
from evokernel.tasks.compiled import compiled

_SEEDS = Path(__file__).parent / "seeds"


def reference(x: torch.Tensor, *, B: int, **_: int) -> torch.Tensor:  # noqa: N803 - the name in the signature
    """Count."""
    return torch.bincount(x, minlength=B).to(torch.int32)


def torch_bincount(inputs: dict[str, torch.Tensor], outputs: tuple[torch.Tensor, ...]) -> None:
    """Let torch count."""
    outputs[0].copy_(torch.bincount(inputs["x"], minlength=outputs[0].numel()))


def torch_histc(inputs: dict[str, torch.Tensor], outputs: tuple[torch.Tensor, ...]) -> None:
    """Let torch count without a wait for the device; on a processor it has this for floating-point numbers alone."""
    bins = outputs[0].numel()
    outputs[0].copy_(torch.histc(inputs["x"], bins=bins, min=0, max=bins))


def written_out(inputs: dict[str, torch.Tensor], outputs: tuple[torch.Tensor, ...]) -> None:
    """Say it in the compiler's way: one is added at each number's place."""
    x = inputs["x"]
    outputs[0].zero_().index_add_(0, x, torch.ones_like(x))


def _size(numbers: int, bins: int, weight: float = 1.0, distribution: str = "normal") -> Workload:
    name = f"{numbers}x{bins}" + ("" if distribution == "normal" else f" {distribution}")
    return Workload(name, {"N": numbers, "B": bins}, weight, distribution)


task = Task(
    name="histogram",
    description="counts[B]: how often each of 0 .. B-1 is among x[N]",
    reference=reference,
    signature=Signature(
        inputs=(Tensor("x", ("N",), dtype="int32", below="B"),),
        scalars=(Scalar("N"), Scalar("B")),
        outputs=(Tensor("counts", ("B",), dtype="int32", role=Role.OUTPUT),),
    ),
    workloads={
        "cpu": WorkloadSet(
            search=(_size(1 << 20, 256, weight=2.0), _size(1 << 19, 4096), _size(1 << 19, 256, 1.0, "wide")),
            holdout=(_size(1000003, 1000), _size(300000, 16), _size(1 << 18, 2000, 1.0, "wide")),
            probe={"N": (1, 5000), "B": (1, 700)},
        ),
        "cuda": WorkloadSet(
            search=(_size(1 << 26, 256, weight=2.0), _size(1 << 25, 2048), _size(1 << 25, 256, 1.0, "wide")),
            holdout=(_size(50000017, 1000), _size(1 << 24, 64), _size(1 << 25, 1500, 1.0, "wide")),
            probe={"N": (1, 50000), "B": (1, 2000)},
            probes=3,
            baselines={"torch": torch_histc, "torch.compile": compiled(written_out)},
        ),
    },
    flops="N",
    precision=Precision(reduction="N"),
    baselines={"torch": torch_bincount},
    seeds={"cpp": _SEEDS / "plain.cpp", "triton": _SEEDS / "plain.py", "cuda": _SEEDS / "plain.cu.py"},
)
