"""The loss of a language model's last layer: cross-entropy of each row of logits with a large vocabulary."""

from pathlib import Path

import torch
from torch.nn.functional import cross_entropy

from evokernel.task import Precision, Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet
from evokernel.tasks.compiled import compiled

_SEEDS = Path(__file__).parent / "seeds"


def reference(logits: torch.Tensor, labels: torch.Tensor, **_: int) -> torch.Tensor:
    """Take the negative logarithm of the probability that a row's softmax gives its label."""
    exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return cross_entropy(exact, labels, reduction="none")


def torch_loss(inputs: dict[str, torch.Tensor], outputs: tuple[torch.Tensor, ...]) -> None:
    """Let torch compute in fp32."""
    outputs[0].copy_(cross_entropy(inputs["logits"].float(), inputs["labels"], reduction="none"))


def _size(rows: int, vocabulary: int, weight: float = 1.0) -> Workload:
    return Workload(f"{rows}x{vocabulary}", {"R": rows, "V": vocabulary}, weight)


task = Task(
    name="cross_entropy",
    description="loss[R] = -log softmax(logits[R,V])[label of the row]; bf16 logits, fp32 sums and result",
    reference=reference,
    signature=Signature(
        inputs=(Tensor("logits", ("R", "V"), dtype="bfloat16"), Tensor("labels", ("R",), dtype="int64")),
        scalars=(Scalar("R"), Scalar("V")),
        outputs=(Tensor("loss", ("R",), role=Role.OUTPUT),),
    ),
    workloads={
        "cuda": WorkloadSet(
            search=(_size(8192, 32000, weight=2.0), _size(4096, 50257)),
            holdout=(_size(4096, 32000), _size(2048, 128256), _size(3000, 30522)),
            probe={"R": (1, 70), "V": (2, 9000)},
            probes=3,
            baselines={"torch": torch_loss, "torch.compile": compiled(torch_loss)},
        ),
    },
    flops="4 * R * V",
    precision=Precision(reduction="V"),
    baselines={"torch": torch_loss},
    seeds={"triton": _SEEDS / "plain.py"},
)
