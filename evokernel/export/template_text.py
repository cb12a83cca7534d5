"""Templates of exported files, and a signature as Python text."""

import re
from pathlib import Path
from string import Template

from evokernel.task import Role, Task, Tensor

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
    }


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


def numbers_of(task: Task) -> dict[str, str]:
    """Return the scalars that are in no shape, with their types in Python."""
    found = dimensions_in_shapes(task)
    return {s.name: "int" if s.dtype == "int64" else "float" for s in task.signature.scalars if s.name not in found}


def example_arguments(task: Task, *, device: str) -> str:
    """Return the arguments of a call on new tensors of the first workload."""
    workload = next(iter(task.workloads.values())).search[0]
    place = "" if device == "cpu" else f', device="{device}"'
    given = []
    for tensor in task.signature.inputs:
        shape = ", ".join(map(str, tensor.shape_at(workload.sizes)))
        made = "ones" if tensor.dtype.startswith("int") else "randn"
        given.append(f"torch.{made}({shape}, dtype=torch.{tensor.dtype}{place})")
    return ", ".join([*given, *(f"{name}={workload.dims[name]}" for name in numbers_of(task))])


def op_name(task: Task) -> str:
    """Return the name of the operator: the task's, as a Python identifier."""
    name = re.sub(r"\W", "_", task.name)
    return name if name.isidentifier() else f"op_{name}"
