"""A layer of a neural network in one: matrix product, bias, GELU."""

from pathlib import Path

import torch
from torch.nn.functional import gelu

from evokernel.task import Precision, Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet
from evokernel.tasks.compiled import compiled
from evokernel.tasks.vendor import multiply

_SEEDS = Path(__file__).parent / "seeds"


def reference(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor, **_: int) -> torch.Tensor:
    """Multiply, add the bias to each row, and take GELU as it is defined, by the error function."""
    wide = torch.promote_types(a.dtype, torch.float32)
    return gelu(a.to(wide) @ b.to(wide) + bias.to(wide)).to(a.dtype)


def torch_layer(inputs: dict[str, torch.Tensor], outputs: tuple[torch.Tensor, ...]) -> None:
    """Let torch do the product with its bias, then GELU."""
    outputs[0].copy_(gelu(torch.addmm(inputs["bias"], inputs["a"], inputs["b"])))


def vendor_layer(inputs: dict[str, torch.Tensor], outputs: tuple[torch.Tensor, ...]) -> None:
    """Let the vendor's library add the bias. Its own GELU is the approximation by tanh, which is another function."""
    multiply(inputs["a"], inputs["b"], outputs[0], bias=inputs["bias"])
    torch.ops.aten.gelu_(outputs[0])


def _size(m: int, n: int, k: int, weight: float = 1.0) -> Workload:
    return Workload(f"{m}x{n}x{k}", {"M": m, "N": n, "K": k}, weight)


task = Task(
    name="gemm_bias_gelu",
    description="c[M,N] = gelu(a[M,K] @ b[K,N] + bias[N]), gelu(x) = x / 2 * (1 + erf(x / sqrt(2))); sums in fp32",
    reference=reference,
    signature=Signature(
        inputs=(Tensor("a", ("M", "K")), Tensor("b", ("K", "N")), Tensor("bias", ("N",))),
        scalars=(Scalar("M"), Scalar("N"), Scalar("K")),
        outputs=(Tensor("c", ("M", "N"), role=Role.OUTPUT),),
    ),
    workloads={
        "cpu": WorkloadSet(
            search=(_size(256, 512, 256, weight=2.0), _size(128, 1024, 256), _size(384, 256, 512)),
            holdout=(_size(224, 576, 160), _size(250, 350, 300), _size(512, 256, 128)),
            probe={"M": (1, 97), "N": (1, 131), "K": (1, 193)},
        ),
        "cuda": WorkloadSet(
            search=(_size(4096, 16384, 4096, weight=2.0), _size(8192, 3072, 768), _size(2048, 8192, 2048)),
            holdout=(_size(2048, 11008, 4096), _size(4000, 4104, 3000), _size(8192, 4096, 1024)),
            probe={"M": (1, 400), "N": (1, 400), "K": (1, 400)},
            probes=3,
            dtype="bfloat16",
            baselines={"torch": torch_layer, "torch.compile": compiled(torch_layer), "cuBLASLt": vendor_layer},
        ),
    },
    flops="2 * M * N * K",
    precision=Precision(reduction="K"),
    baselines={"torch": torch_layer},
    seeds={"cpp": _SEEDS / "plain.cpp", "triton": _SEEDS / "plain.py"},
)
