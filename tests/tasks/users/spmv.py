"""A sparse matrix in compressed rows times a vector: a generator makes offsets and columns that fit each other."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from evokernel.task import Precision, Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet

SEEDS = Path(__file__).parent / "seeds"


def csr(sizes: Mapping[str, int], seed: int) -> dict[str, np.ndarray]:
    """Draw rows of any length, empty ones among them, and a column for each element."""
    rng = np.random.default_rng(seed)
    cuts = np.sort(rng.integers(0, sizes["NNZ"] + 1, sizes["R"] - 1))
    offsets = np.concatenate([[0], cuts, [sizes["NNZ"]]]).astype(np.int32)
    return {"offsets": offsets, "columns": rng.integers(0, sizes["C"], sizes["NNZ"]).astype(np.int32)}


def reference(
    offsets: torch.Tensor, columns: torch.Tensor, values: torch.Tensor, x: torch.Tensor, **_: int
) -> torch.Tensor:
    lengths = offsets.diff()
    rows = torch.repeat_interleave(torch.arange(len(lengths), device=x.device), lengths)
    return x.new_zeros(len(lengths)).index_add(0, rows, values * x[columns])


def _size(rows: int, columns: int, elements: int) -> Workload:
    return Workload(f"{rows}x{columns}", {"R": rows, "C": columns, "NNZ": elements})


task = Task(
    name="spmv",
    description="y[R] = A x, A in compressed rows",
    reference=reference,
    signature=Signature(
        inputs=(
            Tensor("offsets", ("R + 1",), "int32", below="NNZ + 1", generator=csr),
            Tensor("columns", ("NNZ",), "int32", below="C", generator=csr),
            Tensor("values", ("NNZ",)),
            Tensor("x", ("C",)),
        ),
        scalars=(Scalar("R"), Scalar("C"), Scalar("NNZ")),
        outputs=(Tensor("y", ("R",), role=Role.OUTPUT),),
    ),
    workloads={
        "cpu": WorkloadSet(
            search=(_size(400, 300, 5000),),
            holdout=(_size(333, 500, 4000),),
            probe={"R": (2, 60), "C": (2, 60), "NNZ": (1, 900)},
            probes=2,
        ),
        "cuda": WorkloadSet(
            search=(_size(8000, 6000, 300000),),
            holdout=(_size(7000, 9000, 200000),),
            probe={"R": (2, 600), "C": (2, 600), "NNZ": (1, 9000)},
            probes=2,
        ),
    },
    flops="2 * NNZ",
    precision=Precision(reduction="NNZ"),
    seeds={"cpp": SEEDS / "spmv.cpp", "triton": SEEDS / "spmv.triton.py"},
)
