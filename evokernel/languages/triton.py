"""Triton for NVIDIA GPUs: a Python module with kernels, compiled ahead for the shapes it will be run on."""

import importlib.metadata
import importlib.util
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evokernel.errors import LanguageError
from evokernel.languages import triton_guide, triton_static, triton_tokens
from evokernel.languages.device_limits import DeviceLimits
from evokernel.languages.toolchain import Forge, run_plain
from evokernel.languages.triton_messages import digest_failure
from evokernel.languages.triton_profile import read_answer
from evokernel.protocols import BuildFailure, Built
from evokernel.task import Signature, Task, Tensor

PROGRAM = "triton_build"
_ASK_LIMIT_S = 20.0
_ASK_MEMORY_BYTES = 4 << 30
_ASSEMBLERS = ("ptxas", "ptxas-blackwell")
_RELEASE = re.compile(r"release (\d+\.\d+)")

Dims = Mapping[str, int | float]


class TritonLanguage:
    """Triton, compiled without a GPU: `run` is called on stand-ins for tensors, and what it launches is compiled.

    An artifact is a bundle (see `evaluate/inside/bundle`) of `kernel.py` and `cache/`, the compiled kernels.
    """

    name = "triton"
    suffix = ".py"

    def __init__(
        self, *, forge: Forge | None, device: DeviceLimits | None = None, compile_timeout_s: float = 30.0
    ) -> None:
        """Find the tools.

        Args:
            forge: how Python that compiles is run.
            device: limits of the GPU that is compiled for; None for an H100.
            compile_timeout_s: the longest a build for all shapes together may take, in s.

        Raises:
            LanguageError: triton or torch are missing, or there is no forge.
        """
        if forge is None:
            raise LanguageError("triton needs a forge to compile in; toolchain.forge_plain is one for trusted sources")
        self._forge = forge
        self._device = device or DeviceLimits()
        self._timeout_s = compile_timeout_s
        self.environment = f"{_versions()} sm_{self._device.capability}"

    def program_hash(self, source: str) -> str:
        """Return a hash over the tokens: comments, layout and docstrings do not change it, values of tunables do."""
        return triton_tokens.program_hash(source)

    def static_check(self, source: str) -> str | None:
        """Return why the source cannot be tried, or None. Early feedback, not security."""
        return triton_static.static_check(source)

    def guide(self, task: Task) -> str:
        """Return the signature of `run` for a task and the contract around it."""
        return triton_guide.guide(task, device=self._device)

    def build(self, source: str, task: Task, *, hidden: Sequence[Dims] = ()) -> Built | BuildFailure:
        """Compile what `run` launches for the search workloads and for `hidden` dimensions.

        Args:
            source: the candidate.
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
            "capability": self._device.capability,
            "properties": self._properties(),
            "shapes": [*measured, *others],
            "measured": len(measured),
        }
        forged = self._forge(PROGRAM, request, timeout_s=self._timeout_s)
        if forged.timed_out:
            return BuildFailure(f"compiling took more than {self._timeout_s:g} s and was stopped", timed_out=True)
        if forged.answer is None:
            return BuildFailure(f"the compiler crashed on this source: {forged.error[:2000]}")
        return self._read(forged.answer, forged.blob, source)

    def build_checked(self, source: str, task: Task) -> None:
        """Return None: there are no sanitizers for a build without a GPU."""
        return

    def _read(self, answer: Mapping[str, Any], blob: bytes, source: str) -> Built | BuildFailure:
        try:
            if "failure" in answer:
                message = digest_failure(answer["failure"], source)
                return BuildFailure(message, raised=answer["failure"]["stage"] in ("import", "run"))
            found = read_answer(answer, self._device)
        except ValueError as error:
            return BuildFailure(f"the build was tampered with: {str(error)[:200]}")
        metrics = {**found.metrics, "artifact_bytes": float(len(blob))}
        return Built(artifact=blob, hash=found.hash, descriptor=found.descriptor, metrics=metrics)

    def _properties(self) -> dict[str, int]:
        """Return what Triton and torch say about the device."""
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
        {"kind": "tensor", "name": each.name, "shape": list(each.shape_at(sizes)), "dtype": each.dtype}
        if isinstance(each, Tensor)
        else {"kind": "scalar", "value": dims[each.name]}
        for each in signature.arguments
    ]


def _versions() -> str:
    """Return the versions of what compiles, without importing it. Raises `LanguageError` where it is missing."""
    found = [f"{package} {_version(package)}" for package in ("triton", "torch")]
    spec = importlib.util.find_spec("triton")
    folders = [] if spec is None or spec.submodule_search_locations is None else spec.submodule_search_locations
    return f"{found[0]} ptxas {'/'.join(_assemblers(folders))} {found[1]}"


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        raise LanguageError(f"{package} is not installed for this Python: pip install {package}") from None


def _assemblers(folders: Iterable[str]) -> list[str]:
    """Return the versions of the assemblers that come with Triton; which one is used depends on the target."""
    tools = [Path(folder, "backends", "nvidia", "bin", tool) for folder in folders for tool in _ASSEMBLERS]
    versions = []
    with tempfile.TemporaryDirectory(prefix="evokernel-") as name:
        for tool in filter(Path.is_file, tools):
            argv = [str(tool), "--version"]
            done = run_plain(argv, workdir=Path(name), timeout_s=_ASK_LIMIT_S, memory_bytes=_ASK_MEMORY_BYTES)
            versions += _RELEASE.findall(done.stdout)
    if not versions:
        raise LanguageError("the assembler ptxas, which comes with triton, is missing: reinstall triton")
    return versions
