"""A GPU that is not there: torch, its compiler and Triton answer as on an H100, and nothing is allocated or launched.

For a process of its own: what is patched here stays patched. Written for torch 2.11 to 2.13.
"""

import ctypes
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

_CUDA, _META = 1, 14  # c10's DeviceType
_DEVICE_TYPES = 21
_GUARDS = "_ZN3c104impl26device_guard_impl_registryE"

H100 = SimpleNamespace(
    name="NVIDIA H100 80GB HBM3",
    major=9,
    minor=0,
    multi_processor_count=132,
    regs_per_multiprocessor=65536,
    max_threads_per_multi_processor=2048,
    max_threads_per_block=1024,
    warp_size=32,
    total_memory=80 << 30,
    shared_memory_per_block=48 << 10,
    shared_memory_per_block_optin=227 << 10,
    shared_memory_per_multiprocessor=228 << 10,
    L2_cache_size=50 << 20,
    gcnArchName="",
)


def stand_in_gpu() -> None:
    """Make this process believe in one H100."""
    import torch._inductor.fx_passes.misc_patterns as misc_patterns
    import torch.utils._triton as torch_triton
    import triton
    from torch._dynamo.device_interface import CudaInterface
    from torch._inductor.runtime import triton_helpers
    from torch._subclasses.fake_tensor import FakeTensorMode
    from triton.backends.compiler import GPUTarget

    _lend_device_guard()
    for name, make in _answers().items():
        setattr(torch.cuda, name, make())
    for name, make in _interface_answers().items():  # it bound torch.cuda's functions when the class was made
        setattr(CudaInterface, name, staticmethod(make()))
    # with is_available() true, fake tensors would be sent to the device for their constants
    FakeTensorMode.avoid_device_init = property(lambda self: True)
    misc_patterns._misc_patterns_init = lambda *_: None  # its patterns run on the device
    torch_triton.triton_hash_with_backend = lambda: "stand-in"  # would open the driver
    triton_helpers.set_driver_to_gpu = lambda: None
    target = GPUTarget("cuda", 10 * H100.major + H100.minor, H100.warp_size)
    driver = SimpleNamespace(
        get_current_target=lambda: target, get_current_device=lambda: 0, get_current_stream=lambda device: 0
    )
    triton.runtime.driver.set_active(driver)


def _always(value: Any) -> Callable[[], Callable[..., Any]]:
    """Return a maker of functions: the compiler keeps handlers by function, so each name needs one of its own."""
    return lambda: lambda *_, **__: value


def _answers() -> dict[str, Callable[[], Callable[..., Any]]]:
    zero, nothing, yes = _always(0), _always(None), _always(True)
    return {
        "get_device_properties": _always(H100),
        "get_device_capability": _always((H100.major, H100.minor)),
        "get_device_name": _always(H100.name),
        "device_count": _always(1),
        "get_rng_state": _always(torch.zeros(16, dtype=torch.uint8)),
        **dict.fromkeys(("current_device", "_exchange_device", "_maybe_exchange_device"), zero),
        **dict.fromkeys(("synchronize", "set_device", "set_rng_state", "_lazy_init"), nothing),
        **dict.fromkeys(("is_available", "is_bf16_supported", "is_tf32_supported"), yes),
    }


def _interface_answers() -> dict[str, Callable[[], Callable[..., Any]]]:
    zero, nothing = _always(0), _always(None)
    return {
        "get_device_properties": _always(H100),
        "device_count": _always(1),
        "is_bf16_supported": _always(True),
        **dict.fromkeys(("current_device", "exchange_device", "maybe_exchange_device", "get_raw_stream"), zero),
        **dict.fromkeys(("set_device", "synchronize"), nothing),
    }


def _lend_device_guard() -> None:
    """Give CUDA the guard of meta tensors, which a CPU build lacks and `clone` or `contiguous` ask for.

    A CUDA build without a GPU has one already.
    """
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
    registry = (ctypes.c_void_p * _DEVICE_TYPES).in_dll(library, _GUARDS)
    if not registry[_CUDA]:
        registry[_CUDA] = registry[_META]
