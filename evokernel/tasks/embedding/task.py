"""The first layer of a language model: for each token the row of a table."""

from pathlib import Path

import torch

from evokernel.task import Precision, Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet
from evokernel.tasks.compiled import compiled

_SEEDS = Path(__file__).parent / "seeds"


def reference(table: torch.Tensor, tokens: torch.Tensor, **_: int) -> torch.Tensor:
    """Take a row for each token."""
    return table[tokens]


def torch_embedding(inputs: dict[str, torch.Tensor], outputs: tuple[torch.Tensor, ...]) -> None:
    """Let torch write the rows in place."""
    torch.index_select(inputs["table"], 0, inputs["tokens"], out=outputs[0])


def written_out(inputs: dict[str, torch.Tensor], outputs: tuple[torch.Tensor, ...]) -> None:
    """Say it in the compiler's way."""
    outputs[0].copy_(torch.nn.functional.embedding(inputs["tokens"], inputs["table"]))


def _size(tokens: int, vocabulary: int, columns: int, weight: float = 1.0) -> Workload:
    return Workload(f"{tokens}x{vocabulary}x{columns}", {"T": tokens, "V": vocabulary, "C": columns}, weight)


task = Task(
    name="embedding",
    description="y[T,C] = rows of table[V,C], one for each of tokens[T]",
    reference=reference,
    signature=Signature(
        inputs=(Tensor("table", ("V", "C")), Tensor("tokens", ("T",), dtype="int64", below="V")),
        scalars=(Scalar("T"), Scalar("V"), Scalar("C")),
        outputs=(Tensor("y", ("T", "C"), role=Role.OUTPUT),),
    ),
    workloads={
        "cpu": WorkloadSet(
            search=(_size(1024, 8000, 256, weight=2.0), _size(256, 2000, 1024), _size(4096, 5000, 64)),
            holdout=(_size(777, 3000, 300), _size(128, 1000, 2048), _size(2000, 10000, 100)),
            probe={"T": (1, 300), "V": (1, 500), "C": (1, 200)},
        ),
        "cuda": WorkloadSet(
            search=(_size(16384, 32000, 4096, weight=2.0), _size(32768, 50257, 768), _size(8192, 128256, 2048)),
            holdout=(_size(8192, 32000, 5120), _size(5000, 30522, 1023), _size(16384, 65024, 2048)),
            probe={"T": (1, 900), "V": (1, 3000), "C": (1, 1500)},
            probes=3,
            dtype="bfloat16",
            baselines={"torch": torch_embedding, "torch.compile": compiled(written_out)},
            bytes_moved="T * 8 + T * C * 2 + (T <= V) * (T - T * T // (2 * V)) * C * 2",
        ),
    },
    flops="0",
    # a row that is taken again may still be in a cache; of T tokens about T^2 / 2V are such
    bytes_moved="T * 8 + T * C * 4 + (T <= V) * (T - T * T // (2 * V)) * C * 4",
    precision=Precision(exact_on_integers=True),
    baselines={"torch": torch_embedding},
    seeds={"cpp": _SEEDS / "plain.cpp", "triton": _SEEDS / "plain.py"},
)
