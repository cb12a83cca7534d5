"""The gate of a language model's feed-forward layer: one projection through SiLU, times the other."""

from pathlib import Path

import torch
from torch.nn.functional import silu

from evokernel.task import Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet
from evokernel.tasks.compiled import compiled

_SEEDS = Path(__file__).parent / "seeds"


def reference(gate: torch.Tensor, up: torch.Tensor, **_: int) -> torch.Tensor:
    """Multiply SiLU of one with the other."""
    wide = torch.promote_types(gate.dtype, torch.float32)
    return (silu(gate.to(wide)) * up.to(wide)).to(gate.dtype)


def torch_silu_mul(inputs: dict[str, torch.Tensor], outputs: tuple[torch.Tensor, ...]) -> None:
    """Let torch do one after the other."""
    torch.mul(silu(inputs["gate"]), inputs["up"], out=outputs[0])


def written_out(inputs: dict[str, torch.Tensor], outputs: tuple[torch.Tensor, ...]) -> None:
    """Do it step by step, for the compiler to put together."""
    outputs[0].copy_(silu(inputs["gate"].float()) * inputs["up"])


def _size(rows: int, columns: int, weight: float = 1.0) -> Workload:
    return Workload(f"{rows}x{columns}", {"R": rows, "C": columns}, weight)


task = Task(
    name="silu_mul",
    description="y[R,C] = gate[R,C] / (1 + exp(-gate[R,C])) * up[R,C]; computed in fp32",
    reference=reference,
    signature=Signature(
        inputs=(Tensor("gate", ("R", "C")), Tensor("up", ("R", "C"))),
        scalars=(Scalar("R"), Scalar("C")),
        outputs=(Tensor("y", ("R", "C"), role=Role.OUTPUT),),
    ),
    workloads={
        "cpu": WorkloadSet(
            search=(_size(512, 1024, weight=2.0), _size(128, 5504), _size(1024, 256)),
            holdout=(_size(333, 1000), _size(64, 8192), _size(2048, 128)),
            probe={"R": (1, 37), "C": (1, 900)},
        ),
        "cuda": WorkloadSet(
            search=(_size(4096, 14336, weight=2.0), _size(8192, 5632), _size(2048, 28672)),
            holdout=(_size(4096, 11008), _size(5000, 3001), _size(16384, 2048)),
            probe={"R": (1, 70), "C": (1, 5000)},
            probes=3,
            dtype="bfloat16",
            baselines={"torch": torch_silu_mul, "torch.compile": compiled(written_out)},
        ),
    },
    flops="4 * R * C",
    baselines={"torch": torch_silu_mul},
    seeds={"cpp": _SEEDS / "plain.cpp", "triton": _SEEDS / "plain.py"},
)
