"""Tasks whose baseline is the candidate itself, launched by Triton's own launcher: it should be measured as 1.000x."""

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from evokernel.task import Precision, Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet

HERE = Path(__file__).parent
Baseline = Callable[[Mapping[str, Any], Sequence[torch.Tensor]], None]


def own_launcher(source: str, **numbers: int) -> Baseline:
    """Return a baseline that calls `run` of a kernel file beside this one, in the judge, with the real Triton.

    `numbers` take the place of those at the top of the file.
    """
    cached: list[Any] = []

    def call(inputs: Mapping[str, Any], outputs: Sequence[torch.Tensor]) -> None:
        if not cached:
            spec = importlib.util.spec_from_file_location(f"own_{source.replace('.', '_')}", HERE / source)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            vars(module).update(numbers)
            cached.append(module)
        cached[0].run(*inputs.values(), *outputs)

    return call


def gemm(source: str, baseline: Baseline, *shapes: tuple[int, int, int]) -> Task:
    """Return c = a @ b in bf16 on some shapes (M, N, K)."""
    return Task(
        name="gemm",
        description="c = a @ b",
        reference=lambda a, b, **_: a @ b,
        signature=Signature(
            inputs=(Tensor("a", ("M", "K")), Tensor("b", ("K", "N"))),
            scalars=(Scalar("M"), Scalar("N"), Scalar("K")),
            outputs=(Tensor("c", ("M", "N"), role=Role.OUTPUT),),
        ),
        workloads=_on_gpu(shapes, "MNK", dtype="bfloat16", baseline=baseline),
        flops="2 * M * N * K",
        precision=Precision(reduction="K", exact_on_integers=True),
        baselines={"own launcher": baseline},
        seeds={"triton": HERE / source},
    )


def rows(name: str, reference: Callable[..., torch.Tensor], baseline: Baseline, *shapes: tuple[int, int]) -> Task:
    """Return y = f(x) in fp32 on some shapes (R, C)."""
    return Task(
        name=name,
        description=name,
        reference=reference,
        signature=Signature(
            inputs=(Tensor("x", ("R", "C")),),
            scalars=(Scalar("R"), Scalar("C")),
            outputs=(Tensor("y", ("R", "C"), role=Role.OUTPUT),),
        ),
        workloads=_on_gpu(shapes, "RC", dtype="float32", baseline=baseline),
        flops="5 * R * C",
        precision=Precision(reduction="C"),
        baselines={"own launcher": baseline},
        seeds={},
    )


def add(baseline: Baseline, *shapes: tuple[int, int]) -> Task:
    """Return z = x + y in fp32 on some shapes (R, C)."""
    return Task(
        name="add",
        description="z = x + y",
        reference=lambda x, y, **_: x + y,
        signature=Signature(
            inputs=(Tensor("x", ("R", "C")), Tensor("y", ("R", "C"))),
            scalars=(Scalar("R"), Scalar("C")),
            outputs=(Tensor("z", ("R", "C"), role=Role.OUTPUT),),
        ),
        workloads=_on_gpu(shapes, "RC", dtype="float32", baseline=baseline),
        flops="R * C",
        baselines={"own launcher": baseline},
        seeds={},
    )


def _on_gpu(shapes: Sequence[Sequence[int]], names: str, *, dtype: str, baseline: Baseline) -> dict[str, WorkloadSet]:
    search = tuple(Workload("x".join(map(str, shape)), dict(zip(names, shape, strict=True))) for shape in shapes)
    probe = dict.fromkeys(names, (1, 300))
    return {"cuda": WorkloadSet(search=search, holdout=search[:1], probe=probe, probes=2, dtype=dtype)}
