"""Export as an operator of PyTorch: a kernel for each known shape, torch for all others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evokernel.config.run import DEVICE_OF
from evokernel.evaluate.client.evaluate_kernel import KernelVerdict
from evokernel.export.template_text import (
    dimensions_in_shapes,
    dimensions_in_strides,
    example_arguments,
    fill,
    numbers_of,
    op_name,
    strides_text,
    written,
)
from evokernel.records.timing import Speedup
from evokernel.task import Role, Task, Tensor, Workload

ALIGNMENTS = {"cpu": 64, "cuda": 256}


@dataclass(frozen=True, slots=True)
class Winner:
    """The kernel for one workload."""

    workload: Workload
    module: str
    """Name of the module that holds it."""
    speedup: Speedup | None
    """On that workload; None where it was not timed alone."""


def winners(task: Task, judgements: Mapping[str, KernelVerdict]) -> list[Winner]:
    """Return the kernel for each workload.

    A search workload gets the fastest, by the low end of its speed-up. Held-out ones, which are timed together, get
    the kernel that is fastest there, if it is faster than the baselines: an operator must not slow its user down.

    Args:
        task: with the workloads of one class of devices.
        judgements: by module name of each kernel, each right on all workloads.
    """
    workloads = next(iter(task.workloads.values()))
    found = []
    for workload in workloads.search:
        timings = [
            (t.speedup, name) for name, j in judgements.items() for t in j.last.timings if t.workload == workload.name
        ]
        speedup, module = max(timings, key=lambda timing: timing[0].low)
        found.append(Winner(workload, module, speedup))
    held = {name: j.last.metrics.get("holdout_speedup", 0.0) for name, j in judgements.items()}
    module = max(held, key=held.__getitem__)
    return found + [Winner(workload, module, None) for workload in workloads.holdout if held[module] >= 1]


def op_file(task: Task, judgements: Mapping[str, KernelVerdict]) -> str:
    """Return the text of op.py, which needs the kernels' modules and reference.py beside it."""
    candidate = next(iter(judgements.values())).candidate
    numbers, outputs = numbers_of(task), task.signature.outputs
    names = [tensor.name for tensor in task.signature.inputs]
    changed = [tensor.name for tensor in task.signature.inputs if tensor.role is Role.INOUT]
    typed = [*(f"{name}: torch.Tensor" for name in names), *(f"{name}: {kind}" for name, kind in numbers.items())]
    device = DEVICE_OF[candidate.language]
    return fill(
        "op.py.txt",
        inputs=_rows(task.signature.inputs),
        inouts=repr(tuple(changed)),
        outputs=_rows(outputs),
        told=repr(dimensions_in_shapes(task)),
        strides=strides_text(task),
        told_by_strides=repr(dimensions_in_strides(task)),
        description=task.description or task.name,
        name=op_name(task),
        namespace=f"evokernel_{candidate.id}",
        example=f"out = {op_name(task)}({example_arguments(task, device=device)})",
        modules="".join(f"import {module}\n" for module in judgements),
        device=device,
        alignment=str(ALIGNMENTS[device]),
        scalars=repr(tuple(scalar.name for scalar in task.signature.scalars)),
        given=repr(tuple(numbers)),
        sizes=repr(tuple(_sizes(task))),
        kernels=_kernels(task, winners(task, judgements)),
        parameters=", ".join([*typed[: len(names)], *(["*", *typed[len(names) :]] if numbers else [])]),
        returns="return one tensor" if len(written(task)) == 1 else "return a tuple of tensors",
        tensors=", ".join(f'"{name}": {name}' for name in names),
        numbers=", ".join(f'"{name}": {name}' for name in numbers),
        arguments=", ".join([*names, *numbers]),
        typed=", ".join(typed),
        schema=_schema(task),
        differentiable=" or ".join(f"{name}.requires_grad" for name in names),
        only="[0]" if len(outputs) == 1 else "",
        made=("None", "made[0]")[len(outputs)] if len(outputs) < 2 else "tuple(made)",
        returned=_returned(changed, outputs),
    )


def _rows(tensors: Sequence[Tensor]) -> str:
    """Return name, dtype and shape of tensors as a tuple in Python."""
    return f"({' '.join(f'({tensor.name!r}, torch.{tensor.dtype}, {tensor.shape!r}),' for tensor in tensors)})"


def _schema(task: Task) -> str:
    """Return the operator's arguments and results as torch.library declares them."""
    given = [
        f"Tensor(a{place}!) {tensor.name}" if tensor.role is Role.INOUT else f"Tensor {tensor.name}"
        for place, tensor in enumerate(task.signature.inputs)
    ]
    given += [f"{kind} {name}" for name, kind in numbers_of(task).items()]
    results = ", ".join("Tensor" for _ in task.signature.outputs)
    return f"({', '.join(given)}) -> ({results})"


def _returned(changed: Sequence[str], outputs: Sequence[Tensor]) -> str:
    """Return the operator's result as text: the changed inputs, and `made`, which is one tensor or several."""
    if not changed:
        return "made" if len(outputs) == 1 else "tuple(made)"
    if not outputs:
        return ", ".join(changed)
    return ", ".join([*changed, "made" if len(outputs) == 1 else "*made"])


def _sizes(task: Task) -> list[str]:
    return list(next(iter(task.workloads.values())).search[0].dims)


def _kernels(task: Task, found: Sequence[Winner]) -> str:
    lines = []
    for winner in found:
        speedup, key = winner.speedup, tuple(winner.workload.dims[name] for name in _sizes(task))
        speed = f"  # {speedup.value:.3g}x ({speedup.low:.3g} to {speedup.high:.3g})" if speedup else ""
        lines.append(f"    {key!r}: {winner.module},{speed}")
    return "\n".join(lines)
