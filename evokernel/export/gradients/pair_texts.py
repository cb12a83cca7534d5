"""Files of an operator with gradients that stand beside the exports of its two kernels."""

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from evokernel.export.gradients.gradient_task import differentiable
from evokernel.export.template_text import fill, fixed_texts, new_tensor, op_name, refusal_text
from evokernel.records.timing import Speedup, microseconds
from evokernel.source.expressions import evaluate
from evokernel.task import Task, Workload

CHECKS = "test_gradients.py"
Figures = Mapping[str, Mapping[str, Any]]
"""By workload: times by implementation under `us`, in microseconds, and the speed-ups over torch with their ends."""


def operator_name(forward: Task) -> str:
    """Return the name of the operator: that of the function."""
    return op_name(forward).removesuffix("_forward")


def pair_texts(
    forward: Task, backward: Task, functions: ModuleType, *, ids: tuple[str, str], device: str, threads: int
) -> dict[str, str]:
    """Return op.py and the file that compares and times it, by name."""
    inputs = [tensor.name for tensor in forward.signature.inputs]
    name, workload = operator_name(forward), next(iter(forward.workloads.values())).search[0]
    place = "" if device == "cpu" else f', device="{device}"'
    example = ", ".join(new_tensor(tensor, workload, place) for tensor in forward.signature.inputs)
    count = len(forward.signature.outputs)
    fixed = fixed_texts(vars(functions).get("FIXED", {}), inputs)
    keywords = [f"{each}: Any = {value}" for each, value in fixed.items()]
    typed = [f"{each}: torch.Tensor" for each in inputs]
    return {
        "op.py": fill(
            "gradient_op.py.txt",
            description=f"{name} with gradients for {', '.join(functions.GRADIENTS)}",
            name=name,
            example=f"out = {name}({example})",
            namespace=f"evokernel_{ids[0]}_{ids[1]}",
            inputs=repr(tuple(inputs)),
            outputs=str(functions.OUTPUTS),
            saved=repr(functions.SAVED),
            scalars=repr(functions.SCALARS),
            arguments=repr(functions.BACKWARD),
            gradients=repr(functions.GRADIENTS),
            parameters=", ".join([*typed, *(["*", *keywords] if keywords else [])]),
            typed=", ".join(typed),
            refusal=refusal_text(name, fixed),
            given=", ".join(inputs),
            differentiable=", ".join(functions.GRADIENTS),
            schema=f"({', '.join(f'Tensor {each}' for each in inputs)}) -> ({', '.join(['Tensor'] * count)})",
        ),
        CHECKS: fill(
            f"{CHECKS}.txt",
            name=name,
            device=device,
            threads=str(threads),
            training=Path(str(functions.__file__)).name,
            workloads="\n".join(_row(forward, each) for each in next(iter(forward.workloads.values())).search),
        ),
    }


def _row(task: Task, workload: Workload) -> str:
    sizes = workload.sizes
    rows = []
    for tensor in task.signature.inputs:
        below = None if tensor.below is None else evaluate(tensor.below, sizes)
        rows.append((tensor.dtype, tensor.shape_at(sizes), tensor.strides_at(sizes), below))
    return f"    {workload.name!r}: {tuple(rows)!r},"


def readme(forward: Task, functions: ModuleType, *, ids: tuple[str, str], figures: Figures, checked: str) -> str:
    """Return README.md."""
    name = operator_name(forward)
    rows = ["| workload | kernels | torch | speed-up | torch.compile | speed-up |", "|---|---|---|---|---|---|"]
    for workload, found in figures.items():
        us = found["us"]
        cells = [f"{microseconds(us['kernels'])}"]
        for key in ("torch", "torch.compile"):
            cells += [f"{microseconds(us[key])}", span(Speedup(*found[key]))] if key in us else ["-", "-"]
        rows.append(f"| {workload} | {' | '.join(cells)} |")
    return fill(
        "README.gradients.md.txt",
        name=name,
        forward=ids[0],
        backward=ids[1],
        gradients=", ".join(f"`{each}`" for each in functions.GRADIENTS),
        saved=", ".join(f"`{each}`" for each in functions.SAVED) or "nothing beside inputs and results",
        results=", ".join(map(str, differentiable(functions))),
        checked=checked,
        table="\n".join(rows) if figures else "Not measured yet: `python test_gradients.py` does it.",
    )


def span(speedup: Speedup) -> str:
    """Return a speed-up with its interval."""
    return f"{speedup.value:.3g}x ({speedup.low:.3g} to {speedup.high:.3g})"
