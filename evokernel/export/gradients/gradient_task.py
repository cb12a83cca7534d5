"""The function of two tasks, forward and backward, as one: its results and gradients, by autograd in fp64."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

import torch

from evokernel.errors import TaskError
from evokernel.export.template_text import dimensions_in_shapes
from evokernel.scaffold.gradients.training_project import backward_inputs
from evokernel.scaffold.operation.user_file import is_source
from evokernel.source.expressions import evaluate
from evokernel.task import Precision, Role, Signature, Task, Tensor, Workload


def functions_of(task: Task) -> ModuleType | None:
    """Return the file of functions that a task of `evokernel init --training` stands on; None for another task."""
    source = getattr(task.reference, "__globals__", {}).get("source")
    return source if is_source(source) and hasattr(source, "BACKWARD") else None


def differentiable(functions: ModuleType) -> list[int]:
    """Return the places of the results that have gradients."""
    return [int(key.removeprefix("gradient ")) for key in functions.BACKWARD if key.startswith("gradient ")]


def gradient_task(forward: Task, backward: Task, functions: ModuleType, workload: Workload) -> Task:
    """Return a task for one workload: inputs and gradients of the results to results and gradients of the inputs.

    A gradient stands behind the sums of both tasks, so its error may be that of both lengths together. Raises
    `TaskError` if the sizes of backward do not follow from those of forward.
    """
    places, results = differentiable(functions), forward.signature.outputs[: functions.OUTPUTS]
    inputs = {tensor.name: tensor for tensor in forward.signature.inputs}
    flowing = tuple(Tensor(f"gradient_{place}", results[place].shape, results[place].dtype) for place in places)
    gradients = tuple(
        Tensor(f"gradient_of_{name}", inputs[name].shape, inputs[name].dtype, Role.OUTPUT)
        for name in functions.GRADIENTS
    )

    def reference(**given: Any) -> tuple[torch.Tensor, ...]:
        leaves = {name: given[name] for name in inputs}
        leaves |= {name: given[name].detach().requires_grad_() for name in functions.GRADIENTS}
        with torch.enable_grad():
            made = functions.original(**leaves)
            flat = list(made) if isinstance(made, (tuple, list)) else [made]
            came = [given[f"gradient_{place}"].reshape(flat[place].shape) for place in places]
            found = torch.autograd.grad(
                [flat[place] for place in places], [leaves[n] for n in functions.GRADIENTS], came
            )
        return (*(each.reshape(each.shape or (1,)) for each in flat), *found)

    reduction = sum(
        int(evaluate(task.precision.reduction, sizes))
        for task, sizes in (
            (forward, workload.sizes),
            (backward, backward_sizes(forward, backward, functions, workload)),
        )
    )
    device, workloads = next(iter(forward.workloads.items()))
    return replace(
        forward,
        name=f"{forward.name} with gradients",
        reference=reference,
        signature=Signature((*forward.signature.inputs, *flowing), forward.signature.scalars, (*results, *gradients)),
        workloads={device: replace(workloads, search=(workload,))},
        precision=Precision(reduction, slack=max(forward.precision.slack, backward.precision.slack)),
        baselines=None,
    )


def backward_sizes(forward: Task, backward: Task, functions: ModuleType, workload: Workload) -> dict[str, int]:
    """Return the sizes of backward for a workload of forward. Raises `TaskError` where they do not follow."""
    shape = {tensor.name: tensor.shape_at(workload.sizes) for tensor in forward.signature.tensors}
    results = [shape[tensor.name] for tensor in forward.signature.outputs]
    inputs = {tensor.name: shape[tensor.name] for tensor in forward.signature.inputs}
    given = backward_inputs(functions, inputs, results, results[: functions.OUTPUTS])
    shapes = dict(zip((tensor.name for tensor in backward.signature.inputs), given, strict=True))
    sizes = _sizes(backward, shapes)
    for tensor in backward.signature.inputs:
        if tensor.shape_at(sizes) != tuple(shapes[tensor.name]):
            raise TaskError(f"{tensor.name} of {backward.name} has other shapes than {forward.name} gives it")
    return sizes


def _sizes(task: Task, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    return {name: shapes[key][axis] // factor for name, (key, axis, factor) in dimensions_in_shapes(task).items()}
