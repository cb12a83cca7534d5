"""The common part of Python languages for NVIDIA GPUs: `run` is recorded, and the kernels it launches are compiled."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from evokernel.errors import LanguageError
from evokernel.languages.device_limits import DeviceLimits
from evokernel.languages.gpu.profile import read_answer
from evokernel.languages.toolchain import PythonCompiler
from evokernel.records.build import BuildFailure, Built
from evokernel.records.candidate import Candidate
from evokernel.task import Signature, Task, Tensor

Dims = Mapping[str, int | float]


class GpuPythonLanguage(ABC):
    """Compiles without a GPU: `run` is called on stand-ins for tensors, and the kernels that it launches are compiled.

    An artifact is a bundle (see `inside/process/bundle`) of `kernel.py`, `plans.json` (the launches for each shape, see
    `inside/untrusted/recording`) and `cache/`, the compiled kernels. A subclass names the program of the compile pool
    that builds, and digests its failures.
    """

    name: str
    program: str
    environment: str
    suffix = ".py"
    syntax = "python"

    def __init__(
        self, *, forge: PythonCompiler | None, device: DeviceLimits | None = None, compile_timeout_s: float = 30.0
    ) -> None:
        """Take the tools that build. Raises `LanguageError` if there is no forge.

        Args:
            device: limits of the GPU that is compiled for; None for an H100.
            compile_timeout_s: the longest a build for all shapes together may take, in s.
        """
        if forge is None:
            raise LanguageError(
                f"{self.name} needs a forge to compile in; toolchain.forge_plain is one for trusted sources"
            )
        self._forge = forge
        self._device = device or DeviceLimits()
        self._timeout_s = compile_timeout_s

    def program_hash(self, source: str) -> str:
        """Return a hash over the whole text: Python code can read its own docstrings and line numbers."""
        return Candidate(source, self.name).id

    @abstractmethod
    def digest(self, failure: Mapping[str, Any], source: str) -> str:
        """Return a failure of the program as a message to the author. Raises `ValueError` for another document."""

    def warm(self) -> None:
        """Start the warm process of the compile pool: an empty request starts it, and fails at once."""
        self._forge(self.program, {}, timeout_s=self._timeout_s)

    def build(self, source: str, task: Task, *, hidden: Sequence[Dims] = ()) -> Built | BuildFailure:
        """Compile the kernels that `run` launches for the search workloads and for `hidden` dimensions.

        Args:
            task: the task as it is on the device class, with the workloads of that class alone.
            hidden: further dimensions by name; they do not enter hash, descriptor or metrics.

        Raises:
            LanguageError: the task has workloads for several device classes.
        """
        if len(task.workloads) != 1:
            raise LanguageError(f"task {task.name!r} must be resolved for one device class first (Task.on)")
        (workloads,) = task.workloads.values()
        measured = [_arguments(task.signature, workload.dims) for workload in workloads.search]
        others = [_arguments(task.signature, dims) for dims in hidden]
        request = {
            "source": source,
            "environment": self.environment,  # part of the key of compiled kernels
            "capability": self._device.capability,
            "properties": self._properties(),
            "shapes": [*measured, *others],
            "measured": len(measured),
        }
        answered = self._forge(self.program, request, timeout_s=self._timeout_s)
        if answered.timed_out:
            return BuildFailure(
                f"compiling took more than {self._timeout_s:g} s (evaluation.compile_timeout_s) and was stopped",
                timed_out=True,
            )
        if answered.answer is None:
            return BuildFailure(f"the compiler crashed on this source: {answered.error[:2000]}")
        return self._read(answered.answer, answered.blob, source)

    def build_checked(self, source: str, task: Task) -> None:
        """Return None: there are no sanitizers for a build without a GPU."""
        return

    def _read(self, answer: Mapping[str, Any], blob: bytes, source: str) -> Built | BuildFailure:
        try:
            if "failure" in answer:
                message = self.digest(answer["failure"], source)
                return BuildFailure(message, raised=answer["failure"]["stage"] in ("import", "run"))
            found = read_answer(answer, self._device)
            recordable = float(not answer["unrecordable"])
        except (ValueError, KeyError) as error:
            return BuildFailure(f"the build was tampered with: {str(error)[:200]}")
        metrics = {**found.metrics, "artifact_bytes": float(len(blob)), "recordable": recordable}
        return replace(found, artifact=blob, metrics=metrics)

    def _properties(self) -> dict[str, int]:
        """Return the properties of the device by the names of Triton and torch."""
        return {
            "max_shared_mem": self._device.shared_bytes,
            "max_num_regs": self._device.multiprocessor_registers,
            "multiprocessor_count": self._device.multiprocessors,
            "max_threads": self._device.multiprocessor_threads,
            "warpSize": 32,
        }


def _arguments(signature: Signature, dims: Dims) -> list[dict[str, Any]]:
    sizes = {name: value for name, value in dims.items() if isinstance(value, int)}
    return [
        _tensor(each, sizes) if isinstance(each, Tensor) else {"kind": "scalar", "value": dims[each.name]}
        for each in signature.arguments
    ]


def _tensor(tensor: Tensor, sizes: Mapping[str, int]) -> dict[str, Any]:
    described = {"kind": "tensor", "name": tensor.name, "shape": list(tensor.shape_at(sizes)), "dtype": tensor.dtype}
    strides = tensor.strides_at(sizes)
    return described if strides is None else {**described, "strides": list(strides)}
