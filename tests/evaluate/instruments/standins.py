"""Stand-ins for NVIDIA's tools: programs of their own that print what the real ones print, and run what they are given.

The tools are shell scripts, the driver is a small library: memory of the device is the host's, and its one kernel
writes twice its first argument to the second one.
"""

import re
import struct
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from evokernel.evaluate.inside.driver.kernel_parameters import POINTER
from evokernel.evaluate.instruments.tool_run import RecordedCall, RecordedTensor

COUNT = 256
LAUNCH = {
    "kernel": "twice",
    "cubin": "a" * 64,
    "grid": [1, 1, 1],
    "block": [COUNT, 1, 1],
    "cluster": 1,
    "shared_bytes": 0,
    "cooperative": False,
    "programmatic": False,
    "parameters": [[POINTER, ["x", 0]], [POINTER, ["scratch0", 0]]],
}
PLAN = {
    "scratch": {"scratch0": 4 * COUNT},
    "steps": [
        {"launch": LAUNCH},
        {"copy": {"buffer": "y", "offset": 0, "source": "scratch0", "source_offset": 0, "bytes": 4 * COUNT}},
    ],
}
_NOTHING = """\
cuGetErrorName cuInit cuDeviceGet cuDevicePrimaryCtxRetain cuCtxSetCurrent cuCtxSynchronize cuMemCreate cuMemRelease
cuMemGetAllocationGranularity cuMemExportToShareableHandle cuMemImportFromShareableHandle cuMemAddressReserve
cuMemAddressFree cuMemMap cuMemUnmap cuMemSetAccess cuGetErrorString cuModuleUnload cuModuleGetFunction
cuFuncGetAttribute cuFuncSetAttribute cuTensorMapEncodeTiled cuStreamCreate cuStreamSynchronize cuStreamBeginCapture_v2
cuStreamEndCapture cuGraphInstantiateWithFlags cuGraphUpload cuGraphLaunch cuGraphExecDestroy cuGraphDestroy
cuEventCreate cuEventRecordWithFlags cuEventElapsedTime cuMemFree_v2 cuMemsetD16Async cuMemsetD32Async
"""
_DRIVER = r"""
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
typedef std::uint64_t u64;
static std::size_t last;
extern "C" {
int cuMemAlloc_v2(u64* to, std::size_t size) { *to = (u64)std::calloc(size, 1); return 0; }
int cuMemcpyHtoD_v2(u64 to, const void* from, std::size_t size) { std::memcpy((void*)to, from, size); return 0; }
int cuMemsetD8Async(u64 to, unsigned char value, std::size_t count, void*) {
    std::memset((void*)to, value, count);
    return 0;
}
int cuMemcpyDtoDAsync_v2(u64 to, u64 from, std::size_t size, void*) {
    const unsigned char before = *(unsigned char*)to;
    std::memcpy((void*)to, (void*)from, last = size);
    const float* y = (const float*)to;
    std::printf("before %02x; wrote %g %g ... %g\n", before, y[0], y[1], y[size / 4 - 1]);
    return 0;
}
int cuModuleLoadData(void**, const char* image) { return std::strcmp(image, "machine code") == 0 ? 0 : 200; }
int cuFuncGetParamInfo(void*, std::size_t number, std::size_t*, std::size_t* size) { *size = 8; return number > 1; }
int cuLaunchKernelEx(const unsigned* shape, void*, void** parameters, void**) {
    const float* x = *(const float**)parameters[0];
    float* y = *(float**)parameters[1];
    for (unsigned i = 0; i < shape[0] * shape[3]; ++i) y[i] = 2 * x[i];
    return 0;
}
"""


def make_driver(folder: Path) -> Path:
    """Compile the stand-in for the CUDA driver into a folder, which is returned."""
    nothing = "\n".join(f"int {name}() {{ return 0; }}" for name in re.findall(r"\w+", _NOTHING))
    source = folder / "driver.cpp"
    source.write_text(f"{_DRIVER}{nothing}\n}}\n")
    command = ["g++", "-shared", "-fPIC", "-O0", "-w", "-o", str(folder / "libcuda.so.1"), str(source)]
    subprocess.run(command, check=True, timeout=300)
    (folder / "libcuda.so.1").chmod(0o755)
    return folder


def make_tool(folder: Path, name: str, script: str) -> Callable[[str], Path | None]:
    """Write a shell script as one of the tools; returns what finds that one and no other."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return lambda wanted: path if wanted == name else None


def printing(text: str, *, folder: Path, code: int = 0) -> str:
    """Return a script that prints a text, which is put beside it, and ends."""
    (folder / "printed").write_text(text)
    (folder / "printed").chmod(0o644)
    return f'cat "$(dirname "$0")/printed"; exit {code}'


def recorded(*, hidden: bool = False, plan: Mapping[str, object] = PLAN) -> RecordedCall:
    """Return a call of the stand-in's kernel: x is 0, 1, 2, ..."""
    content = struct.pack(f"<{COUNT}f", *range(COUNT))
    buffers = [RecordedTensor("x", 4 * COUNT, content), RecordedTensor("y", 4 * COUNT)]
    return RecordedCall("a hidden shape" if hidden else "w", plan, {"a" * 64: b"machine code"}, buffers, hidden)
