"""Export as an operator of PyTorch: a kernel for each known shape, torch for all others."""

from collections.abc import Mapping, Sequence

from evokernel.config.run import DEVICE_OF
from evokernel.evaluate.client.evaluate_kernel import KernelVerdict
from evokernel.export.dispatch import Dispatch, Winner, winners
from evokernel.export.dispatch_tree import tree_text
from evokernel.export.template_text import (
    dimensions_in_shapes,
    dimensions_in_strides,
    example_arguments,
    fill,
    fixed_of,
    numbers_of,
    op_name,
    refusal_text,
    strides_text,
    written,
)
from evokernel.task import Role, Task, Tensor

ALIGNMENTS = {"cpu": 64, "cuda": 256}


def op_file(
    task: Task, judgements: Mapping[str, KernelVerdict], *, dispatch: Dispatch | None = None, accept_from: float = 0.0
) -> str:
    """Return the text of op.py, which needs the kernels' modules and reference.py beside it; see `winners`."""
    candidate = next(iter(judgements.values())).candidate
    numbers, outputs = numbers_of(task), task.signature.outputs
    names = [tensor.name for tensor in task.signature.inputs]
    changed = [tensor.name for tensor in task.signature.inputs if tensor.role is Role.INOUT]
    typed = [*(f"{name}: torch.Tensor" for name in names), *(f"{name}: {kind}" for name, kind in numbers.items())]
    fixed, device = fixed_of(task), DEVICE_OF[candidate.language]
    keywords = [*typed[len(names) :], *(f"{name}: Any = {value}" for name, value in fixed.items())]
    said = ", ".join(f"{name}={value}" for name, value in fixed.items())
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
        modules=", ".join(judgements),
        device=device,
        alignment=str(ALIGNMENTS[device]),
        scalars=repr(tuple(scalar.name for scalar in task.signature.scalars)),
        given=repr(tuple(numbers)),
        sizes=repr(tuple(_sizes(task))),
        kernels=_kernels(task, winners(task, judgements, dispatch=dispatch, accept_from=accept_from)),
        ranges=repr(dict(dispatch.domain.ranges) if dispatch else {}),
        others=repr(dispatch.domain.others if dispatch else ()),
        most_bytes=str(dispatch.domain.most_bytes if dispatch else 0),
        tree=tree_text(dispatch.tree) if dispatch else "    return None\n",
        parameters=", ".join([*typed[: len(names)], *(["*", *keywords] if keywords else [])]),
        only_with=f"\nIt computes with {said} and refuses other values: its kernels were made for these.\n"
        if said
        else "",
        refusal=refusal_text(op_name(task), fixed),
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
