"""CUDA C++ for NVIDIA GPUs: a Python module with kernels in a string, compiled by NVRTC for the shapes it is run on."""

import importlib.metadata
from collections.abc import Mapping
from typing import Any

from evokernel.errors import LanguageError
from evokernel.languages.device_limits import DeviceLimits
from evokernel.languages.gpu import cuda_guide, cuda_static_check, triton_messages
from evokernel.languages.gpu.language import GpuPythonLanguage
from evokernel.languages.header_folders import HeaderFolders
from evokernel.languages.toolchain import PythonCompiler
from evokernel.source.tunables import read_tunables
from evokernel.task import Task

_ADVICE = {
    "shared memory": "make the tiles in shared memory smaller, or keep fewer of them in flight",
    "threads": "launch smaller blocks",
    "registers": "declare the kernel with __launch_bounds__(threads of a block), or launch smaller blocks",
}
_ASK_LIMIT_S = 180.0  # the first request also waits for torch to be imported
_HELPER_VERSION = 1
"""Raised whenever the helper compiles or launches the same source in another way."""


def digest_failure(failure: Mapping[str, Any], source: str) -> str:
    """Return the message of a failure as `evaluate/inside/untrusted/cuda_faults` describes one.

    Raises `ValueError` if it is another document.
    """
    try:
        if failure["hidden"] or failure["stage"] != "resources":
            return triton_messages.digest_failure(failure, source)
        resource, required, limit = str(failure["resource"]), int(failure["required"]), int(failure["limit"])
        advice = _ADVICE[resource]
    except (KeyError, TypeError, OverflowError) as error:
        raise ValueError(f"not a failure: {error!r}") from None
    names = ", ".join(tunable.name for tunable in read_tunables(source).tunables)
    here = f" (tunables here: {names})" if names else ""
    unit = "bytes of shared memory" if resource == "shared memory" else resource
    return f"the kernel needs {required} {unit} for a block; the device has {limit}: {advice}{here}"


class CudaLanguage(GpuPythonLanguage):
    """CUDA C++ in a Python module, with `run`, which launches its kernels."""

    name = "cuda"
    program = "cuda_build"
    suffix = ".cu.py"
    static_check = staticmethod(cuda_static_check.static_check)
    digest = staticmethod(digest_failure)

    def __init__(
        self,
        *,
        forge: PythonCompiler | None,
        device: DeviceLimits | None = None,
        compile_timeout_s: float = 30.0,
        headers: HeaderFolders | None = None,
    ) -> None:
        """Ask for the versions of the tools. Raises `LanguageError` where one is missing."""
        super().__init__(forge=forge, device=device, compile_timeout_s=compile_timeout_s)
        tools = self._tools()
        self._target, self._headers = str(tools["target"]), bool(tools["headers"])
        self._further = headers or HeaderFolders()
        known = "" if self._headers else " without CUDA's headers"
        known += f" with headers {self._further.digest}" if self._further.digest else ""
        torch = importlib.metadata.version("torch")
        self.environment = f"nvrtc {tools['version']}{known} helper {_HELPER_VERSION} torch {torch} {self._target}"

    def guide(self, task: Task) -> str:
        """Return the signature of `run` for a task and the contract around it."""
        return cuda_guide.guide(
            task, device=self._device, target=self._target, headers=self._headers, further=self._further.names()
        )

    def _tools(self) -> Mapping[str, Any]:
        """Return the tools that the forge finds: it may see less of the machine than we do."""
        asked = self._forge(self.program, {"tools_for": self._device.capability}, timeout_s=_ASK_LIMIT_S)
        if asked.answer is None:
            raise LanguageError(f"the forge does not work: {asked.error[:500]}")
        if "missing" in asked.answer:
            raise LanguageError(str(asked.answer["missing"]))
        if not asked.answer["disassembler"]:
            raise LanguageError("cuobjdump, which reads what was compiled, is missing: pip install triton")
        return asked.answer
