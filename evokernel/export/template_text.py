"""Templates of exported files, and a signature as Python text."""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from string import Template
from typing import Any

from evokernel.scaffold.operation.nested_values import holds_classes
from evokernel.scaffold.task_text import constants_text
from evokernel.task import Role, Task, Tensor, Workload

_TEMPLATES = Path(__file__).with_name("templates")


def fill(template: str, /, **values: str) -> str:
    """Return a template with a text for each placeholder. Raises `KeyError` where one is missing."""
    return Template((_TEMPLATES / template).read_text(encoding="utf-8")).substitute(values)


def declared(task: Task) -> dict[str, str]:
    """Return the tensors of a signature as Python text, by placeholder."""
    signature = task.signature
    return {
        "inputs": repr(tuple(_row(tensor) for tensor in signature.inputs)),
        "inouts": repr(tuple(tensor.name for tensor in signature.inputs if tensor.role is Role.INOUT)),
        "outputs": repr(tuple(_row(tensor) for tensor in signature.outputs)),
        "strides": strides_text(task),
    }


def strides_text(task: Task) -> str:
    """Return the strides of the inputs that are not row-major, as a dict in Python."""
    return repr({tensor.name: tensor.strides for tensor in task.signature.inputs if tensor.strides is not None})


def _row(tensor: Tensor) -> tuple[str, str, tuple[str | int, ...]]:
    return tensor.name, tensor.dtype, tensor.shape


def written(task: Task) -> list[Tensor]:
    """Return the tensors that a kernel writes, in calling order."""
    return [tensor for tensor in task.signature.tensors if tensor.role is not Role.INPUT]


def dimensions_in_shapes(task: Task) -> dict[str, tuple[str, int, int]]:
    """Return the dimensions in shapes of inputs: tensor, axis and factor of each."""
    found: dict[str, tuple[str, int, int]] = {}
    for tensor in task.signature.inputs:
        for place, extent in enumerate(tensor.shape):
            match = re.fullmatch(r"(?:(\d+) \* )?([A-Za-z_]\w*)", str(extent))
            if match:
                found.setdefault(match[2], (tensor.name, place, int(match[1] or 1)))
    return found


def dimensions_in_strides(task: Task) -> dict[str, tuple[str, int]]:
    """Return the dimensions that no shape tells and a stride does: tensor and axis of each."""
    found: dict[str, tuple[str, int]] = {}
    for tensor in task.signature.inputs:
        for place, stride in enumerate(tensor.strides or ()):
            if str(stride).isidentifier():
                found.setdefault(str(stride), (tensor.name, place))
    return {name: where for name, where in found.items() if name not in dimensions_in_shapes(task)}


def numbers_of(task: Task) -> dict[str, str]:
    """Return the scalars that neither shapes nor strides tell, with their types in Python."""
    found = {*dimensions_in_shapes(task), *dimensions_in_strides(task)}
    return {s.name: "int" if s.dtype == "int64" else "float" for s in task.signature.scalars if s.name not in found}


def fixed_of(task: Task) -> dict[str, str]:
    """Return the arguments that the task fixed, with their values in Python; see `fixed_texts`."""
    return fixed_texts(task.fixed, {argument.name for argument in task.signature.arguments})


def fixed_texts(fixed: Mapping[str, Any], taken: Collection[str]) -> dict[str, str]:
    """Return the values in Python of arguments that are fixed and that no kernel takes.

    Left out are NaN, which equals nothing, and values of classes of the user's file, which an export does not have.
    """
    return {
        name: constants_text({name: value}).partition("=")[2]
        for name, value in fixed.items()
        if name not in taken and value == value and not holds_classes(value)
    }


def refusal_text(name: str, fixed: Mapping[str, str]) -> str:
    """Return the lines of an operator that refuse other values of what is fixed; none where nothing is."""
    if not fixed:
        return ""
    said = ", ".join(f"{key}={value}" for key, value in fixed.items())
    text = f"{name} computes with {said} alone, which its kernels were made for"
    return f"    if [{', '.join(fixed)}] != [{', '.join(fixed.values())}]:\n        raise ValueError({text!r})\n"


def example_arguments(task: Task, *, device: str) -> str:
    """Return the arguments of a call on new tensors of the first workload."""
    workload = next(iter(task.workloads.values())).search[0]
    place = "" if device == "cpu" else f', device="{device}"'
    given = [new_tensor(tensor, workload, place) for tensor in task.signature.inputs]
    return ", ".join([*given, *(f"{name}={workload.dims[name]}" for name in numbers_of(task))])


def new_tensor(tensor: Tensor, workload: Workload, place: str) -> str:
    """Return a call of torch that makes a tensor for a workload; `place` is its last argument, after a comma."""
    sizes = workload.sizes
    shape, strides = ", ".join(map(str, tensor.shape_at(sizes))), tensor.strides_at(sizes)
    dtype = f"dtype=torch.{tensor.dtype}{place}"
    # contents of a generator have to fit each other, and zeros do mostly
    few = tensor.dtype.startswith("float8")  # for which torch draws no random numbers
    filled = "zero" if tensor.generator is not None else "randn" if "float" in tensor.dtype and not few else "ones"
    if strides is not None:
        way = {"zero": "zero_()", "ones": "fill_(1)", "randn": "normal_()"}[filled]
        return f"torch.empty_strided(({shape},), {strides}, {dtype}).{way}"
    made = "empty" if tensor.role is Role.OUTPUT else {"zero": "zeros"}.get(filled, filled)
    return f"torch.{made}({shape}, {dtype})"


def op_name(task: Task) -> str:
    """Return the name of the operator: the task's, as a Python identifier."""
    name = re.sub(r"\W", "_", task.name)
    return name if name.isidentifier() else f"op_{name}"
