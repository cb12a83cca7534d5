"""The guide for authors of a kernel in the language `cuda`: the signature of `run` and the contract around it."""

from collections.abc import Sequence
from pathlib import Path

from evokernel.languages.device_limits import DeviceLimits
from evokernel.languages.gpu.triton_guide import ALIGNMENT_BYTES, describe_argument, entry_signature
from evokernel.languages.guide_text import arguments_of, row_major
from evokernel.task import Task

_NAMED = 20
"""Most names of further headers in the guide."""
_CONTRACT = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")


def guide(task: Task, *, device: DeviceLimits, target: str, headers: bool, further: Sequence[str] = ()) -> str:
    """Return the guide for authors of kernels for a task.

    `headers` says whether those of CUDA are there; `further` are files and folders of others that can be included.
    """
    named = ", ".join(further[:_NAMED]) + (", ..." if len(further) > _NAMED else "")
    return _CONTRACT.format(
        entry=entry_signature(task.signature),
        arguments=arguments_of(task.signature, describe_argument),
        layout=row_major(task.signature),
        alignment=ALIGNMENT_BYTES,
        tf32="" if task.precision.allow_tf32 else "; no TF32 where inputs are fp32",
        capability=f"{device.capability // 10}.{device.capability % 10}",
        target=target,
        headers="" if headers else " - which are missing here, so include none",
        further=f"\n  and what begins with {named}" if further else "",
        multiprocessors=device.multiprocessors,
        shared=device.shared_bytes,
    )
