"""Compiled kernels on the GPU through the CUDA driver alone: load, inspect, launch. No compiler, no C code of ours.

The context is torch's: it must be current when these functions are called.
"""

from collections.abc import Iterable, Sequence
from ctypes import byref, c_int, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass

from .cuda_driver import (
    CLUSTER,
    CLUSTER_POLICY,
    COOPERATIVE,
    LARGEST_PORTABLE_CLUSTER,
    LOCAL_BYTES,
    MAX_DYNAMIC_SHARED,
    MAX_THREADS,
    NON_PORTABLE_CLUSTER,
    PREFERRED_CARVEOUT,
    PROGRAMMATIC,
    REGISTERS,
    STATIC_SHARED,
    CudaLaunchError,
    LaunchAttribute,
    LaunchConfig,
    call,
    launch_attribute,
    parameter_bytes,
)
from .kernel_parameters import Packed, Parameter, TensorMap

STATIC_SHARED_BYTES = 48 << 10
_SPREAD = 1  # CU_CLUSTER_SCHEDULING_POLICY_SPREAD
_MAX_RANK = 5
_NOT_INTERLEAVED, _PROMOTE_128_BYTES, _NAN_FILL = 0, 2, 1


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape and modes of a launch."""

    grid: tuple[int, int, int]
    """Clusters, which lie along x: the driver gets `grid[0] * cluster` blocks there."""
    block: tuple[int, int, int]
    """Threads of a block along x, y and z."""
    cluster: int
    """Blocks of a cluster; 1 for none."""
    shared_bytes: int
    """Dynamic shared memory of a block."""
    cooperative: bool
    """All blocks are resident at once."""
    programmatic: bool
    """The kernel may begin before the one before it ends."""


class LoadedModule:
    """Machine code in the current context; the kernels of one module share its variables."""

    def __init__(self, image: bytes) -> None:
        """Load a cubin, or PTX text that ends with a NUL. Raises `CudaLaunchError` where the driver refuses."""
        self.handle = c_void_p()
        call("cuModuleLoadData", byref(self.handle), image)

    def unload(self) -> None:
        """Unload the module; its kernels must not be launched again."""
        call("cuModuleUnload", self.handle)


class LoadedKernel:
    """One function of a loaded module, with the driver's facts about it."""

    def __init__(self, module: LoadedModule, name: str, shared_bytes: int) -> None:
        """Find the function and allow its dynamic shared memory. Raises `CudaLaunchError` where the driver refuses."""
        self.name = name
        self.module = module
        self._function = c_void_p()
        call("cuModuleGetFunction", byref(self._function), module.handle, name.encode())
        self.registers = self._attribute(REGISTERS)
        self.local_bytes = self._attribute(LOCAL_BYTES)
        self.max_threads = self._attribute(MAX_THREADS)
        if shared_bytes + self._attribute(STATIC_SHARED) > STATIC_SHARED_BYTES:
            call("cuFuncSetAttribute", self._function, MAX_DYNAMIC_SHARED, shared_bytes)
        self.parameter_bytes = tuple(parameter_bytes(self._function))
        self._non_portable = False

    def prefer_shared_memory(self) -> None:
        """Let blocks of this kernel use all shared memory of a multiprocessor, whatever that leaves to its cache."""
        call("cuFuncSetAttribute", self._function, PREFERRED_CARVEOUT, 100)

    def launch(self, shape: Shape, parameters: Sequence[Parameter], stream: int) -> None:
        """Queue one launch on a stream; an empty grid launches nothing. Raises as `bind`."""
        self.bind(shape, parameters).launch(stream)

    def bind(self, shape: Shape, parameters: Sequence[Parameter]) -> "PreparedLaunch":
        """Return a launch with its parameters, which can be repeated.

        Raises `CudaLaunchError` if the kernel has more, fewer, or larger parameters, or the driver refuses the shape.
        """
        if len(parameters) != len(self.parameter_bytes):
            raise CudaLaunchError(
                f"CUDA error: kernel {self.name} takes {len(self.parameter_bytes)} parameters and was given "
                f"{len(parameters)}"
            )
        packed = Packed(parameters, encode)
        for number, (due, given) in enumerate(zip(self.parameter_bytes, packed.sizes, strict=True)):
            if due != given:
                raise CudaLaunchError(
                    f"CUDA error: parameter {number} of kernel {self.name} has {due} bytes and was given {given}"
                )
        if shape.cluster > LARGEST_PORTABLE_CLUSTER and not self._non_portable:
            call("cuFuncSetAttribute", self._function, NON_PORTABLE_CLUSTER, 1)
            self._non_portable = True
        return PreparedLaunch(self._function, shape, packed)

    def _attribute(self, number: int) -> int:
        value = c_int()
        call("cuFuncGetAttribute", byref(value), number, self._function)
        return value.value


class PreparedLaunch:
    """One launch of a kernel: its shape and its parameters, laid out in memory once."""

    def __init__(self, function: c_void_p, shape: Shape, packed: Packed) -> None:
        self._function = function
        self._empty = 0 in shape.grid
        self._packed = packed
        attributes = list(_attributes(shape))
        self._row = (LaunchAttribute * max(len(attributes), 1))(*attributes)
        x, y, z = shape.grid
        blocks = (x * shape.cluster, y, z)
        self._config = LaunchConfig(blocks, shape.block, shape.shared_bytes, None, self._row, len(attributes))

    def launch(self, stream: int) -> None:
        """Queue the launch on a stream; an empty grid launches nothing. Raises `CudaLaunchError`."""
        if not self._empty:
            self._config.stream = stream
            call("cuLaunchKernelEx", byref(self._config), self._function, self._packed.addresses, None)


def encode(tensor_map: TensorMap, address: int) -> None:
    """Write the 128 bytes of a tensor map to an address aligned to 128. Raises `CudaLaunchError` for a bad one."""
    rank = len(tensor_map.shape)
    if not len(tensor_map.box) == rank <= _MAX_RANK:
        raise CudaLaunchError(f"CUDA error: a tensor map of rank {rank} with a block of rank {len(tensor_map.box)}")
    call(
        "cuTensorMapEncodeTiled",
        address,
        tensor_map.element_type,
        rank,
        tensor_map.base.data_ptr(),
        (c_uint64 * _MAX_RANK)(*tensor_map.shape),
        (c_uint64 * _MAX_RANK)(*tensor_map.strides_bytes),
        (c_uint32 * _MAX_RANK)(*tensor_map.box),
        (c_uint32 * _MAX_RANK)(*[1] * _MAX_RANK),
        _NOT_INTERLEAVED,
        tensor_map.swizzle,
        _PROMOTE_128_BYTES,
        _NAN_FILL if tensor_map.nan_padding else 0,
    )


def _attributes(shape: Shape) -> Iterable[LaunchAttribute]:
    if shape.programmatic:
        yield launch_attribute(PROGRAMMATIC, 1)
    if shape.cooperative:
        yield launch_attribute(COOPERATIVE, 1)
    if shape.cluster > 1:
        yield launch_attribute(CLUSTER, shape.cluster, 1, 1)
        yield launch_attribute(CLUSTER_POLICY, _SPREAD)
