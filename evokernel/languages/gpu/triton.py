"""Triton for NVIDIA GPUs: a Python module with kernels, compiled ahead for the shapes it will be run on."""

import importlib.metadata
import importlib.util
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path

from evokernel.errors import LanguageError
from evokernel.languages.device_limits import DeviceLimits
from evokernel.languages.gpu import triton_guide, triton_static_check
from evokernel.languages.gpu.language import GpuPythonLanguage
from evokernel.languages.gpu.triton_messages import digest_failure
from evokernel.languages.toolchain import PythonCompiler, run_plain
from evokernel.task import Task

_ASK_LIMIT_S = 20.0
_ASK_MEMORY_BYTES = 4 << 30
_ASSEMBLERS = ("ptxas", "ptxas-blackwell")
_RELEASE = re.compile(r"release (\d+\.\d+)")


class TritonLanguage(GpuPythonLanguage):
    """Triton: a Python module with kernels, and `run`, which launches them."""

    name = "triton"
    program = "triton_build"
    static_check = staticmethod(triton_static_check.static_check)
    digest = staticmethod(digest_failure)

    def __init__(
        self, *, forge: PythonCompiler | None, device: DeviceLimits | None = None, compile_timeout_s: float = 30.0
    ) -> None:
        """Find the tools. Raises `LanguageError` where triton or torch are missing, or there is no forge."""
        super().__init__(forge=forge, device=device, compile_timeout_s=compile_timeout_s)
        self.environment = f"{_versions()} sm_{self._device.capability}"

    def guide(self, task: Task) -> str:
        """Return the signature of `run` for a task and the contract around it."""
        return triton_guide.guide(task, device=self._device)


def _versions() -> str:
    """Return the versions of the compilers, without importing them. Raises `LanguageError` where one is missing."""
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
    """Return the versions of the assemblers that come with Triton; the target decides which one is used."""
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
