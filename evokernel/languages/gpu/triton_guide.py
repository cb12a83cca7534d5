"""The guide for authors of a Triton kernel: the signature of `run` and the contract around it."""

from pathlib import Path

from evokernel.languages.device_limits import DeviceLimits
from evokernel.languages.guide_text import arguments_of, bytes_of, layout_of, range_of, row_major
from evokernel.task import Role, Scalar, Signature, Task, Tensor

ALIGNMENT_BYTES = 256

_CONTRACT = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")


def entry_signature(signature: Signature) -> str:
    """Return the first line of `run`."""
    return f"def run({', '.join(argument.name for argument in signature.arguments)}):"


def guide(task: Task, *, device: DeviceLimits) -> str:
    """Return the guide for authors of kernels for a task."""
    return _CONTRACT.format(
        entry=entry_signature(task.signature),
        arguments=arguments_of(task.signature, describe_argument),
        layout=row_major(task.signature),
        alignment=ALIGNMENT_BYTES,
        tf32="" if task.precision.allow_tf32 else ', and give tl.dot input_precision="ieee" where its inputs are fp32',
        capability=f"{device.capability // 10}.{device.capability % 10}",
        multiprocessors=device.multiprocessors,
        shared=device.shared_bytes,
    )


def describe_argument(argument: Tensor | Scalar) -> str:
    """Return one line on an argument."""
    if isinstance(argument, Scalar):
        return f"- {argument.name}: {'int' if argument.dtype == 'int64' else 'float'}"
    shape = ", ".join(str(extent) for extent in argument.shape)
    role = {Role.INPUT: "input", Role.INOUT: "input and output, changed in place", Role.OUTPUT: "output"}[argument.role]
    kind = f"torch.{argument.dtype}{bytes_of(argument)}"
    return f"- {argument.name}[{shape}]: {kind}, {role}{layout_of(argument)}{range_of(argument)}"
