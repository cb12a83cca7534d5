"""Compilation of CUDA C++ by NVRTC, the compiler as a library. Needs no GPU, and only the standard library."""

import ctypes
import functools
import os
import re
import sys
from collections.abc import Iterator, Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import Any

INCLUDE_FOLDERS = "EVOKERNEL_CUDA_INCLUDE"
"""The environment variable that names further folders of headers, with `os.pathsep` between them."""
_HEADER = "cuda_fp16.h"
_TOOLKIT = "/usr/local/cuda"
_FIRST_WITH_OWN_TARGET = 90  # from here on only `sm_90a` and the like have wgmma, setmaxnreg
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "nvrtcVersion": (POINTER(c_int), POINTER(c_int)),
    "nvrtcCreateProgram": (POINTER(c_void_p), c_char_p, c_char_p, c_int, c_void_p, c_void_p),
    "nvrtcCompileProgram": (c_void_p, c_int, POINTER(c_char_p)),
    "nvrtcGetProgramLogSize": (c_void_p, POINTER(c_size_t)),
    "nvrtcGetProgramLog": (c_void_p, c_char_p),
    "nvrtcGetCUBINSize": (c_void_p, POINTER(c_size_t)),
    "nvrtcGetCUBIN": (c_void_p, c_char_p),
    "nvrtcDestroyProgram": (POINTER(c_void_p),),
}
_COMPILATION = 6  # NVRTC_ERROR_COMPILATION


class NvrtcMissing(RuntimeError):
    """There is no NVRTC on this machine."""


class CompileError(RuntimeError):
    """A source does not compile. The message is the compiler's log, in which the source is `kernel.cu`."""

    def __init__(self, log: str, source: str) -> None:
        """Keep the source beside the log, so that its lines can be found."""
        super().__init__(log)
        self.source = source


def target_of(capability: int) -> str:
    """Return the compiler's target: `sm_90a` for 90, `sm_80` for 80."""
    return f"sm_{capability}{'a' if capability >= _FIRST_WITH_OWN_TARGET else ''}"


@dataclass(frozen=True, slots=True)
class Nvrtc:
    """The compiler."""

    library: ctypes.CDLL
    version: str
    folders: tuple[str, ...]
    """Folders of headers, CUDA's own last; may be empty."""

    @property
    def has_headers(self) -> bool:
        """Say whether `cuda_fp16.h` and its like can be included."""
        return any(Path(folder, _HEADER).is_file() for folder in self.folders)

    def compile(self, source: str, options: Sequence[str], *, target: str) -> bytes:
        """Return a cubin, the same for the same source, options, target and version.

        Raises:
            CompileError: the source does not compile.
            RuntimeError: NVRTC refuses an option, or fails.
        """
        arguments = [
            f"--gpu-architecture={target}",
            "--disable-warnings",
            *(f"-I{folder}" for folder in self.folders),
            *options,
        ]
        program = c_void_p()
        self._call("nvrtcCreateProgram", byref(program), source.encode(), b"kernel.cu", 0, None, None)
        try:
            row = (c_char_p * len(arguments))(*[argument.encode() for argument in arguments])
            code = self.library.nvrtcCompileProgram(program, len(arguments), row)
            if code:
                log = self._read("nvrtcGetProgramLog", program).rstrip(b"\0").decode(errors="replace").strip()
                if code == _COMPILATION:
                    raise CompileError(log, source)
                raise RuntimeError(f"NVRTC error {code}: {log}")
            return self._read("nvrtcGetCUBIN", program)
        finally:
            self._call("nvrtcDestroyProgram", byref(program))

    def _read(self, name: str, program: c_void_p) -> bytes:
        size = c_size_t()
        self._call(f"{name}Size", program, byref(size))
        room = ctypes.create_string_buffer(size.value + 1)  # never of one byte, since Python shares those objects
        self._call(name, program, room)
        return room.raw[: size.value]

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self.library, name)(*arguments)
        if code:
            raise RuntimeError(f"NVRTC error {code} in {name}")


@functools.cache
def find_nvrtc() -> Nvrtc:
    """Return the compiler of the installed packages, else that of the CUDA toolkit.

    Raises `NvrtcMissing` if there is none.
    """
    for folder in _library_folders():
        for path in sorted(folder.glob("libnvrtc.so.*"), reverse=True):
            if re.fullmatch(r"libnvrtc\.so\.\d+", path.name):
                return _load(path)
    raise NvrtcMissing(
        "NVRTC, which compiles CUDA C++, is not installed; it comes with torch for CUDA, with the CUDA toolkit, or "
        "with pip install nvidia-cuda-nvrtc nvidia-cuda-runtime"
    )


def _library_folders() -> Iterator[Path]:
    """Yield places to look, CUDA 12 before 13: a driver loads what an older compiler made, and not the other way."""
    for entry in filter(None, sys.path):
        for package in ("cuda_nvrtc", "cu*"):
            yield from sorted(Path(entry, "nvidia").glob(f"{package}/lib"))
    for root in filter(None, (os.environ.get("CUDA_HOME"), _TOOLKIT)):
        yield Path(root, "lib64")


def _load(path: Path) -> Nvrtc:
    library = ctypes.CDLL(str(path))
    for name, arguments in _SIGNATURES.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, c_int
    major, minor = c_int(), c_int()
    library.nvrtcVersion(byref(major), byref(minor))
    root = path.parent.parent
    # the packages for CUDA 12 are a folder each, those for CUDA 13 share one
    folders = (root / "include", root / "include/cccl", root.parent / "cuda_runtime/include")
    further = filter(None, os.environ.get(INCLUDE_FOLDERS, "").split(os.pathsep))
    found = (*further, *(str(folder) for folder in folders if folder.is_dir()))
    return Nvrtc(library, f"{major.value}.{minor.value}", found)
