"""Triton without its own launcher: driver objects that record launches or make them.

Triton's driver for NVIDIA compiles C stubs with the system's compiler at run time. The drivers here replace it
(`activate`): all of Triton's front end runs unmodified (specialisation, grids, heuristics) and ends in a launcher of
ours. `RecordingDriver` needs no GPU and records launches; `LiveDriver` makes them. Written for Triton 3.6 to 3.9.
"""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ..driver.kernel_parameters import POINTER, Packing, Parameter
from ..driver.loaded_kernel import LoadedKernel, LoadedModule, Shape
from .recording import LaunchScratch, Recorder

WARP = 32
_GRID_LIMIT = (2**31 - 1, 65535, 65535)


class Driver:
    """The driver interface of Triton 3.6 to 3.9, without the device itself."""

    def __init__(self, capability: int, properties: Mapping[str, int]) -> None:
        """Describe a device: its compute capability (90 for 9.0) and the properties that Triton reads."""
        self.capability = capability
        self.properties = properties
        self.utils = SimpleNamespace(
            get_device_properties=lambda device: dict(properties),
            load_binary=self._load,
            unload_module=self._unload,
            set_printf_fifo_size=lambda size: None,
        )

    @classmethod
    def is_active(cls) -> bool:
        """Say that this driver works here."""
        return True

    def launcher_cls(self, source: Any, metadata: Any) -> "Launcher":
        """Return the launcher of a compiled kernel."""
        return Launcher(self, source, metadata)

    def launch(self, function: Any, shape: Shape, parameters: list[Parameter], stream: int) -> None:
        """Make one launch; `function` is a result of `load`."""
        raise NotImplementedError

    def load(self, name: str, image: bytes, shared_bytes: int) -> tuple[Any, int, int, int]:
        """Load a compiled kernel; return its function, registers, bytes of local memory, most threads."""
        raise NotImplementedError

    def unload(self, function: Any) -> None:
        """Unload a result of `load`."""

    def scratch(self, size_bytes: int) -> Any:
        """Return a buffer on the device for one launch, or None for no bytes."""
        raise NotImplementedError

    def get_current_target(self) -> Any:
        """Return the target of compilation."""
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self.capability, WARP)

    def get_current_device(self) -> int:
        """Return the number of the only device."""
        return 0

    def set_current_device(self, device: int) -> None:
        """Do nothing: there is only one device."""

    def get_current_stream(self, device: int) -> int:
        """Return the stream to launch on."""
        return 0

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        """Return the compute capability, as torch does."""
        return divmod(self.capability, 10)

    def get_active_torch_device(self) -> Any:
        """Return torch's name of the device."""
        import torch

        return torch.device("cuda", 0)

    def get_device_interface(self) -> Any:
        """Return torch's module for the device."""
        import torch

        return torch.cuda

    def map_python_to_cpp_type(self, kind: str) -> str:
        """Return the type as it is: no C++ is generated here."""
        return kind

    def get_benchmarker(self) -> Callable[..., Any]:
        """Refuse autotuning: the search finds the fastest configuration. Raises `RuntimeError` always."""
        raise RuntimeError("triton.autotune is not allowed: declare tunables (NAME = 64  # tune: 32 64 128) instead")

    def _load(self, name: str, image: bytes, shared_bytes: int, device: int) -> tuple[Any, Any, int, int, int]:
        function, *facts = self.load(name, image, shared_bytes)
        return function, function, *facts

    def _unload(self, function: Any) -> None:
        self.unload(function)


class Launcher:
    """Launches one compiled kernel through a driver, called the way Triton calls its own."""

    def __init__(self, driver: Driver, source: Any, metadata: Any) -> None:
        """Prepare the packing of arguments; `source` has the specialised signature."""
        self._driver = driver
        self._metadata = metadata
        self._packing = Packing(tuple(source.signature.values()), getattr(metadata, "tensordesc_meta", None))

    def __call__(self, grid_x: int, grid_y: int, grid_z: int, stream: int, function: Any, *rest: Any) -> None:
        """Launch. `rest` is packed metadata, launch metadata, two hooks, and the bound arguments of the kernel."""
        metadata = self._metadata
        shape = Shape(
            grid=_grid(grid_x, grid_y, grid_z),
            block=(WARP * metadata.num_warps, 1, 1),
            cluster=metadata.num_ctas,
            shared_bytes=metadata.shared,
            cooperative=bool(metadata.launch_cooperative_grid),
            programmatic=bool(metadata.launch_pdl),
        )
        programs = grid_x * grid_y * grid_z * metadata.num_ctas
        parameters = self._packing(rest[4:])
        scratch = self._driver.scratch(metadata.global_scratch_size * programs)
        profile = self._driver.scratch(metadata.profile_scratch_size * programs)
        parameters += [Parameter(POINTER, scratch), Parameter(POINTER, profile)]
        self._driver.launch(function, shape, parameters, stream)


def _grid(*extents: int) -> tuple[int, int, int]:
    """Return a checked grid, so that a bad one is the same error with and without a GPU."""
    x, y, z = map(operator.index, extents)
    if any(not 0 <= extent <= limit for extent, limit in zip((x, y, z), _GRID_LIMIT, strict=True)):
        raise ValueError(f"a grid of {(x, y, z)} programs: each number must be 0 to {_GRID_LIMIT}, in this order")
    return x, y, z


@dataclass(frozen=True, slots=True)
class Image:
    """A compiled kernel in the recording driver."""

    name: str
    """Name of its function."""
    cubin: str
    """SHA-256 of its machine code."""


class RecordingDriver(Driver):
    """Records launches; needs no GPU."""

    def __init__(self, recorder: Recorder) -> None:
        """Record for the recorder's device."""
        super().__init__(recorder.capability, recorder.properties)
        self._recorder = recorder

    def load(self, name: str, image: bytes, shared_bytes: int) -> tuple[Image, int, int, int]:
        """Keep a cubin."""
        return Image(name, self._recorder.keep(image)), 0, 0, 1024

    def scratch(self, size_bytes: int) -> LaunchScratch | None:
        """Return a new scratch buffer for the launch."""
        return self._recorder.scratch(size_bytes)

    def launch(self, function: Image, shape: Shape, parameters: list[Parameter], stream: int) -> None:
        """Record a launch."""
        self._recorder.launch(function.name, function.cubin, shape=shape, parameters=parameters)


class LiveDriver(Driver):
    """Launches on the GPU that torch uses, on torch's current stream."""

    def __init__(self) -> None:
        """Read the device's properties. Needs a context, which torch makes with its first tensor on the device."""
        import torch

        self._torch = torch
        found = torch.cuda.get_device_properties(0)
        super().__init__(
            found.major * 10 + found.minor,
            {
                "max_shared_mem": found.shared_memory_per_block_optin,
                "max_num_regs": found.regs_per_multiprocessor,
                "multiprocessor_count": found.multi_processor_count,
                "warpSize": WARP,
            },
        )

    def get_current_stream(self, device: int) -> int:
        """Return torch's current stream."""
        return int(self._torch.cuda.current_stream(device).cuda_stream)

    def load(self, name: str, image: bytes, shared_bytes: int) -> tuple[LoadedKernel, int, int, int]:
        """Load a cubin into the current context."""
        kernel = LoadedKernel(LoadedModule(image), name, shared_bytes)
        return kernel, kernel.registers, kernel.local_bytes, kernel.max_threads

    def unload(self, function: LoadedKernel) -> None:
        """Unload a module."""
        function.module.unload()

    def scratch(self, size_bytes: int) -> Any:
        """Return bytes of torch's memory, which torch reuses in the order of the stream; callers may drop them."""
        return self._torch.empty(size_bytes, dtype=self._torch.int8, device="cuda") if size_bytes else None

    def launch(self, function: LoadedKernel, shape: Shape, parameters: list[Parameter], stream: int) -> None:
        """Queue a launch."""
        function.launch(shape, parameters, stream)


def warm() -> None:
    """Import Triton and let it hash its own files, which takes a second; later forks inherit both."""
    import triton  # noqa: F401
    from triton.runtime.cache import triton_key

    triton_key()


def activate(driver: Driver) -> None:
    """Make a driver the one Triton uses in this process from now on."""
    import triton

    fix_options()
    triton.runtime.driver.set_active(driver)


def fix_options() -> None:
    """Fix the environment's options of compilation, so that every process compiles alike and finds cached kernels.

    Without line numbers in the machine code a comment does not change it.
    """
    from triton import knobs

    knobs.compilation.disable_line_info = True
    knobs.compilation.always_compile = False
    knobs.language.default_fp_fusion = True


def use_cache(folder: str) -> None:
    """Load compiled kernels from a folder (`KEY/NAME.json` and `KEY/NAME.cubin`) and compile none.

    The folder may be anywhere and is never written. A missing kernel raises `LookupError`.
    """
    from triton import knobs
    from triton.runtime.cache import CacheManager

    class SealedCache(CacheManager):  # type: ignore[misc]
        """One kernel's part of the folder, as Triton's cache."""

        def __init__(self, key: str, override: bool = False, dump: bool = False) -> None:
            self._folder = Path(folder, key)

        def get_file(self, filename: str) -> str | None:
            path = self._folder / filename
            return str(path) if path.is_file() else None

        def get_group(self, filename: str) -> dict[str, str]:
            name = filename.removesuffix(".json")
            found = {each: self.get_file(each) for each in (filename, f"{name}.cubin")}
            group = {each: path for each, path in found.items() if path is not None}
            if len(group) < len(found):
                raise LookupError(
                    f"kernel {name} was not compiled for these arguments when the source was built: run() must launch "
                    "the same kernels whenever shapes and scalars are the same"
                )
            return group

        def put(self, data: Any, filename: str, binary: bool = True) -> str:
            raise LookupError("nothing is compiled here")

        def put_group(self, filename: str, group: dict[str, str]) -> str:
            raise LookupError("nothing is compiled here")

    knobs.cache.manager_class = SealedCache
