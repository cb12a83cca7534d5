"""CUDA C++ in a string, launched from Python: `Module(text, TILE=64).kernel[grid, block](x, y, n)`.

A module is compiled when its first kernel is launched, for the device that torch uses, and launches go to torch's
current stream. `Kernel.launcher` replaces both: without a GPU, launches are recorded instead. This file,
`cuda_driver.py` and `nvrtc.py` need only torch, and exports carry all three.
"""

import ctypes
import functools
import operator
import re
from collections.abc import Callable, Sequence
from ctypes import byref, c_void_p
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from .cuda_driver import (
    CLUSTER,
    LARGEST_PORTABLE_CLUSTER,
    MAX_DYNAMIC_SHARED,
    NON_PORTABLE_CLUSTER,
    LaunchConfig,
    call,
    launch_attribute,
    parameter_bytes,
)
from .nvrtc import find_nvrtc, target_of

_OPTION = re.compile(
    r"--use_fast_math|--extra-device-vectorization|--restrict|--(?:fmad|ftz|prec-div|prec-sqrt)=(?:true|false)"
    r"|--maxrregcount=\d{1,3}|--std=c\+\+(?:17|20)"
)
_OPTIONS_MEANT = (
    "--use_fast_math, --fmad=, --ftz=, --prec-div=, --prec-sqrt= with true or false, --maxrregcount=N, "
    "--extra-device-vectorization, --restrict, --std=c++17 or c++20"
)
_FLOATS = {4: "fp32", 8: "fp64"}
_C_TYPES: dict[str, Any] = {
    **{f"i{bits}": getattr(ctypes, f"c_int{bits}") for bits in (8, 16, 32, 64)},
    **{f"u{bits}": getattr(ctypes, f"c_uint{bits}") for bits in (8, 16, 32, 64)},
    **{"fp32": ctypes.c_float, "fp64": ctypes.c_double, "ptr": ctypes.c_uint64},
}


@dataclass(frozen=True, slots=True)
class Geometry:
    """The shape of a launch."""

    grid: tuple[int, int, int]
    """Blocks along x, y and z."""
    block: tuple[int, int, int]
    """Threads of a block along x, y and z."""
    shared_bytes: int
    """Dynamic shared memory of a block."""
    cluster: int
    """Blocks of a cluster."""


class LaunchBackend(Protocol):
    """A compiler and launcher of kernels."""

    def load(self, source: str, options: Sequence[str], name: str) -> Any:
        """Return a compiled kernel of a source; its `parameter_bytes` are the sizes of its parameters in order."""

    def launch(self, function: Any, geometry: Geometry, arguments: Sequence[tuple[str, Any]]) -> None:
        """Launch it; an argument is a kind (`i32`, `fp32`, `ptr`, ...) and a number, a tensor or None."""


class Module:
    """CUDA C++; each `extern "C" __global__` function in it is an attribute: `module.name[grid, block](...)`."""

    def __init__(self, source: str, *, options: Sequence[str] = (), **defines: float | str) -> None:
        """Keep a source, which the first launch compiles.

        Args:
            options: flags for the compiler: `--use_fast_math`, `--maxrregcount=N`, `--fmad=false` and the like.
            defines: macros by name, such as the values of tunables.

        Raises:
            ValueError: an option is not allowed.
        """
        for option in options:
            if not _OPTION.fullmatch(option):
                raise ValueError(f"option {option!r} is not allowed; those that are: {_OPTIONS_MEANT}")
        self._source = source
        self._options = (*options, *(f"-D{name}={_text(value)}" for name, value in sorted(defines.items())))

    def __getattr__(self, name: str) -> "Kernel":
        if name.startswith("_"):
            raise AttributeError(name)
        return Kernel(self._source, self._options, name)


class Kernel:
    """One kernel: `kernel[grid, block]`, `[grid, block, shared_bytes]` or `[grid, block, shared_bytes, cluster]`.

    Grid and block are a number or a tuple of up to three, in blocks and threads; the dynamic shared memory is in bytes;
    a cluster is a number of neighbouring blocks that divides the grid.
    """

    launcher: ClassVar[LaunchBackend | None] = None
    """Compiles and launches; None for NVRTC and the GPU that torch uses."""

    def __init__(self, source: str, options: Sequence[str], name: str) -> None:
        self._source = source
        self._options = tuple(options)
        self._name = name

    def __getitem__(self, how: Any) -> Callable[..., None]:
        if not isinstance(how, tuple) or not 2 <= len(how) <= 4:
            raise TypeError(
                f"kernel {self._name} is launched as {self._name}[grid, block] or [grid, block, bytes](...)"
            )
        grid, block = (self._extents(each) for each in how[:2])
        shared_bytes, cluster = (*map(operator.index, how[2:]), *(0, 1)[len(how) - 2 :])
        if cluster < 1 or grid[0] % cluster:
            raise ValueError(f"kernel {self._name}: {grid[0]} blocks cannot be divided into clusters of {cluster}")
        return functools.partial(self._launch, Geometry(grid, block, shared_bytes, cluster))

    def _extents(self, given: Any) -> tuple[int, int, int]:
        extents = [operator.index(extent) for extent in (given if isinstance(given, tuple | list) else (given,))]
        if not 1 <= len(extents) <= 3 or min(extents) < 0:
            raise ValueError(f"kernel {self._name}: {given!r} is neither a grid nor a block: give 1 to 3 numbers")
        x, y, z = (*extents, 1, 1)[:3]
        return x, y, z

    def _launch(self, geometry: Geometry, *values: Any) -> None:
        launcher = Kernel.launcher or _live()
        function = launcher.load(self._source, self._options, self._name)
        sizes = function.parameter_bytes
        if len(values) != len(sizes):
            raise TypeError(f"kernel {self._name} takes {len(sizes)} parameters and was given {len(values)}")
        arguments = [self._argument(*each) for each in zip(range(len(sizes)), values, sizes, strict=True)]
        if 0 not in geometry.grid:
            launcher.launch(function, geometry, arguments)

    def _argument(self, place: int, value: Any, size: int) -> tuple[str, Any]:
        """Return the kind of a value by the size of its parameter: a compiled kernel has no other types."""
        where = f"kernel {self._name}, parameter {place} ({size} bytes)"
        if value is None or hasattr(value, "data_ptr"):
            if size == 8:
                return "ptr", value
            raise TypeError(f"{where}: a tensor needs a pointer, which has 8 bytes")
        if isinstance(value, float) and size in _FLOATS:
            return _FLOATS[size], value
        if hasattr(value, "__index__") and size in (1, 2, 4, 8):
            number, bits = operator.index(value), 8 * size
            if -1 << (bits - 1) <= number < 1 << bits:
                return f"{'i' if number < 1 << (bits - 1) else 'u'}{bits}", number
            raise ValueError(f"{where}: {number} does not fit")
        raise TypeError(f"{where}: {type(value).__name__} cannot be passed; give a tensor, an int or a float")


def _text(value: float | str) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


# ------------------------------------------------------------------------------------------ on the GPU


class _Loaded:
    """A function of a module in the current context."""

    def __init__(self, module: c_void_p, name: str) -> None:
        self.handle = c_void_p()
        call("cuModuleGetFunction", byref(self.handle), module, name.encode())
        self.parameter_bytes = tuple(parameter_bytes(self.handle))
        self._allowed = {MAX_DYNAMIC_SHARED: 0, NON_PORTABLE_CLUSTER: 0}

    def allow(self, attribute: int, value: int) -> None:
        """Raise a limit of the function, unless it is high enough."""
        if value > self._allowed[attribute]:
            call("cuFuncSetAttribute", self.handle, attribute, value)
            self._allowed[attribute] = value


class Live:
    """Launches on the GPU that torch uses, on torch's current stream."""

    def __init__(self, image_of: Callable[[str, Sequence[str]], bytes] | None = None) -> None:
        """Take a function that returns a cubin for source and options; None compiles for the device at hand."""
        import torch

        self._cuda = torch.cuda
        self._image_of = image_of or self._compiled
        self._modules: dict[tuple[Any, ...], c_void_p] = {}
        self._functions: dict[tuple[Any, ...], _Loaded] = {}

    def load(self, source: str, options: Sequence[str], name: str) -> _Loaded:
        """Return a function; all functions of one source share a module and its variables."""
        device = self._cuda.current_device()
        have_context(device)
        key = (device, source, options)
        if (*key, name) not in self._functions:
            if key not in self._modules:
                image, module = self._image_of(source, options), c_void_p()
                call("cuModuleLoadData", byref(module), image)
                self._modules[key] = module
            self._functions[*key, name] = _Loaded(self._modules[key], name)
        return self._functions[*key, name]

    def launch(self, function: _Loaded, geometry: Geometry, arguments: Sequence[tuple[str, Any]]) -> None:
        """Queue one launch."""
        function.allow(MAX_DYNAMIC_SHARED, geometry.shared_bytes)
        function.allow(NON_PORTABLE_CLUSTER, int(geometry.cluster > LARGEST_PORTABLE_CLUSTER))
        cells = [_C_TYPES[kind](_address(value) if kind == "ptr" else value) for kind, value in arguments]
        addresses = (c_void_p * max(len(cells), 1))(*[ctypes.addressof(cell) for cell in cells])
        cluster = launch_attribute(CLUSTER, geometry.cluster, 1, 1)
        stream = self._cuda.current_stream().cuda_stream
        shared_bytes, count = geometry.shared_bytes, int(geometry.cluster > 1)
        config = LaunchConfig(geometry.grid, geometry.block, shared_bytes, stream, ctypes.pointer(cluster), count)
        call("cuLaunchKernelEx", byref(config), function.handle, addresses, None)

    def _compiled(self, source: str, options: Sequence[str]) -> bytes:
        major, minor = self._cuda.get_device_capability()
        return find_nvrtc().compile(source, options, target=target_of(10 * major + minor))


def have_context(device: int, call: Callable[..., None] = call) -> None:
    """Give this thread the context of a device, unless it has one. `call` calls the driver.

    torch makes it in the first call of the runtime, which a thread with cached memory may not have made.
    """
    context = c_void_p()
    call("cuCtxGetCurrent", byref(context))
    if not context.value:
        call("cuDevicePrimaryCtxRetain", byref(context), device)
        call("cuCtxSetCurrent", context)


@functools.cache
def _live() -> Live:
    return Live()


def _address(value: Any) -> int:
    return 0 if value is None else int(value.data_ptr())
