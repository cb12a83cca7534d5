"""Causal attention: each query looks at the keys up to its own place, and mixes their values."""

from pathlib import Path

import torch
from torch.nn.functional import scaled_dot_product_attention

from evokernel.task import Precision, Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet
from evokernel.tasks.compiled import compiled

_SEEDS = Path(__file__).parent / "seeds"
_SHAPE = ("B", "H", "S", "D")


def reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **_: int) -> torch.Tensor:
    """Mix values by the softmax of scaled products, one sequence after the other: all scores at once are too many.

    Weights are rounded to the dtype of the values, as they must be on their way into tensor cores: flash attention
    does that, and so may a candidate.
    """
    result = torch.empty_like(q)
    length, width = q.shape[2:]
    later = torch.ones(length, length, dtype=torch.bool, device=q.device).triu_(1)
    wide = torch.promote_types(q.dtype, torch.float32)
    for sequence in range(q.shape[0]):
        scores = q[sequence].to(wide) @ k[sequence].to(wide).transpose(1, 2)
        scores.mul_(width**-0.5).masked_fill_(later, float("-inf"))
        weights = torch.softmax(scores, dim=2).to(q.dtype)
        result[sequence] = weights.to(wide) @ v[sequence].to(wide)
    return result


def torch_attention(inputs: dict[str, torch.Tensor], outputs: tuple[torch.Tensor, ...]) -> None:
    """Let torch choose among its own kernels."""
    outputs[0].copy_(scaled_dot_product_attention(inputs["q"], inputs["k"], inputs["v"], is_causal=True))


def _size(sequences: int, heads: int, length: int, width: int, weight: float = 1.0) -> Workload:
    dims = {"B": sequences, "H": heads, "S": length, "D": width}
    return Workload(f"{sequences}x{heads}x{length}x{width}", dims, weight)


task = Task(
    name="attention",
    description="o[B,H,S,D]: softmax of q[B,H,S,D] . k[B,H,S,D] / sqrt(D), causal, over v[B,H,S,D]; sums in fp32",
    reference=reference,
    signature=Signature(
        inputs=(Tensor("q", _SHAPE), Tensor("k", _SHAPE), Tensor("v", _SHAPE)),
        scalars=(Scalar("B"), Scalar("H"), Scalar("S"), Scalar("D")),
        outputs=(Tensor("o", _SHAPE, role=Role.OUTPUT),),
    ),
    workloads={
        "cpu": WorkloadSet(
            search=(_size(1, 4, 256, 64, weight=2.0), _size(2, 2, 128, 128), _size(1, 2, 384, 32)),
            holdout=(_size(1, 3, 200, 64), _size(4, 4, 64, 64), _size(1, 1, 500, 80)),
            probe={"B": (1, 2), "H": (1, 3), "S": (1, 150), "D": (1, 130)},
        ),
        "cuda": WorkloadSet(
            search=(_size(4, 32, 2048, 128, weight=2.0), _size(2, 16, 4096, 64), _size(16, 16, 512, 128)),
            holdout=(_size(8, 16, 1024, 128), _size(1, 32, 3000, 128), _size(4, 12, 1023, 64)),
            probe={"B": (1, 2), "H": (1, 3), "S": (1, 400), "D": (16, 128)},
            probes=3,
            dtype="bfloat16",
            baselines={"torch": torch_attention, "torch.compile": compiled(torch_attention)},
        ),
    },
    flops="2 * B * H * S * (S + 1) * D",
    precision=Precision(reduction="S + D"),
    # not "wide" and "offset": scores of 1e7 and 1e5 have roundings that exp makes large, and honest kernels differ
    distributions=("normal", "integers01", "needles"),
    baselines={"torch": torch_attention},
    seeds={"cpp": _SEEDS / "plain.cpp", "triton": _SEEDS / "plain.py"},
)
