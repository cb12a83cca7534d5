"""Baselines made by nvcc: the CUDA C++ of a candidate with an ordinary `<<<...>>>` launch, in a shared library."""

import ctypes
import re
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

HERE = Path(__file__).parent


def nvcc_launcher(source: str, launcher: str) -> Callable[[Mapping[str, Any], Sequence[torch.Tensor]], None]:
    """Return a baseline.

    Args:
        source: a candidate in the language `cuda`, beside this file; its numbers are taken over as macros.
        launcher: the body of `extern "C" void launch(void** tensors, long long rows, long long columns,
            cudaStream_t stream)`.
    """
    loaded: list[ctypes.CDLL] = []

    def call(inputs: Mapping[str, Any], outputs: Sequence[torch.Tensor]) -> None:
        if not loaded:
            loaded.append(_compiled((HERE / source).read_text(), launcher))
        tensors = [value for value in inputs.values() if isinstance(value, torch.Tensor)]
        pointers = [tensor.data_ptr() for tensor in (*tensors, *outputs)]
        rows, columns = (value for value in inputs.values() if isinstance(value, int))
        stream = torch.cuda.current_stream().cuda_stream
        loaded[0].launch((ctypes.c_void_p * len(pointers))(*pointers), rows, columns, stream)

    return call


def _compiled(text: str, launcher: str) -> ctypes.CDLL:
    (code,) = re.findall(r'r"""(.*?)"""', text, re.DOTALL)
    macros = [f"#define {name} {value}" for name, value in re.findall(r"^([A-Z]+) = (\d+)", text, re.MULTILINE)]
    head = 'extern "C" void launch(void** tensors, long long rows, long long columns, cudaStream_t stream)'
    folder = Path(tempfile.mkdtemp(prefix="evokernel-nvcc-"))
    (folder / "kernel.cu").write_text("\n".join([*macros, code, head, "{", launcher, "}"]))
    major, minor = torch.cuda.get_device_capability()
    options = ["-O3", "-std=c++17", f"-arch=sm_{major}{minor}a", "-shared", "-Xcompiler", "-fPIC", "-cudart", "static"]
    subprocess.run(["nvcc", *options, "-o", "kernel.so", "kernel.cu"], cwd=folder, check=True)
    library = ctypes.CDLL(str(folder / "kernel.so"))
    library.launch.argtypes = (ctypes.c_void_p, ctypes.c_longlong, ctypes.c_longlong, ctypes.c_void_p)
    return library
