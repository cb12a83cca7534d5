"""Builds a source in the language `cuda` where there is no GPU: records its launches and compiles their kernels.

Runs in a single-use process: it leaves torch and the environment changed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..driver import cuda_module
from ..driver.cubin_facts import KernelFacts, inspect
from ..driver.kernel_parameters import Parameter
from ..driver.loaded_kernel import Shape
from ..driver.nvrtc import NvrtcMissing, find_nvrtc, target_of
from . import cubin_description, cuda_faults, recording
from .cuda_cache import CACHE, file_of, provide
from .kernel_cache import read_known
from .recorded_build import recorded_build

_WARMING = 'extern "C" __global__ void warm(float* x) { x[threadIdx.x] = expf(x[threadIdx.x]); }'


def warm() -> None:
    """Compile a small kernel, so that single-use processes inherit loaded libraries."""
    provide()
    try:
        find_nvrtc().compile(_WARMING, (), target="sm_90a")
    except NvrtcMissing:
        return  # a request reports what is missing


def answer(request: dict[str, Any], folder: str) -> tuple[dict[str, Any], bytes]:
    """Compile a source for some shapes, or describe the tools.

    Args:
        request: that of `triton_build`, or `tools_for` with a compute capability.
        folder: where files may be written.

    Returns:
        The result of `triton_build`, with failures as in `cuda_faults`; the bundle has the cubins where `cuda_cache`
        finds them. Of the tools `version`, `target`, `headers` (whether CUDA's are there) and `disassembler`, or
        `missing` in plain words.
    """
    if "tools_for" in request:
        return _tools(request["tools_for"]), b""
    provide()
    recorder = recording.Recorder(request["capability"], request["properties"])
    launcher = _Recording(recorder, read_known(request.get("known", {})))

    def route() -> None:
        cuda_module.Kernel.launcher = launcher

    return recorded_build(
        request,
        Path(folder),
        recorder,
        route=route,
        compiled=lambda: launcher.files,
        describe=lambda error: cuda_faults.describe(error, request["source"]),
    )


def _tools(capability: int) -> dict[str, Any]:
    try:
        nvrtc = find_nvrtc()
    except (NvrtcMissing, OSError) as error:
        return {"missing": str(error)}
    return {
        "version": nvrtc.version,
        "target": target_of(capability),
        "headers": nvrtc.has_headers,
        "disassembler": cubin_description.find_cuobjdump() is not None,
    }


@dataclass(frozen=True, slots=True)
class _Function:
    name: str
    cubin: str
    facts: KernelFacts

    @property
    def parameter_bytes(self) -> tuple[int, ...]:
        return self.facts.parameter_bytes


class _Recording:
    """Compiles for the recorder's device, and records launches."""

    def __init__(self, recorder: recording.Recorder, known: dict[str, bytes]) -> None:
        self._known = known
        self.files: dict[str, bytes] = {}
        self._recorder = recorder
        self._target = target_of(recorder.capability)
        self._functions: dict[str, dict[str, _Function]] = {}

    def load(self, text: str, options: Sequence[str], name: str) -> _Function:
        place = file_of(text, options, target=self._target)
        if place not in self._functions:
            self._functions[place] = self._compile(text, options, place)
        found = self._functions[place]
        if name not in found:
            known = ", ".join(sorted(found)) or "none"
            raise AttributeError(f'the CUDA source has no kernel {name!r} (it has {known}); is it extern "C"?')
        return found[name]

    def launch(self, function: _Function, geometry: cuda_module.Geometry, arguments: Sequence[tuple[str, Any]]) -> None:
        cuda_faults.check_resources(function.name, function.facts, geometry, self._recorder.properties)
        (x, y, z), cluster = geometry.grid, geometry.cluster
        shape = Shape((x // cluster, y, z), geometry.block, cluster, geometry.shared_bytes, False, False)
        parameters = [Parameter(kind, value) for kind, value in arguments]
        self._recorder.launch(function.name, function.cubin, shape=shape, parameters=parameters)

    def _compile(self, text: str, options: Sequence[str], place: str) -> dict[str, _Function]:
        name = f"{CACHE}/{place}"
        image = self._known.get(name) or find_nvrtc().compile(text, options, target=self._target)
        self.files[name] = image
        digest = self._recorder.keep(image)
        return {name: _Function(name, digest, facts) for name, facts in inspect(image).kernels.items()}
