"""Variables of a loaded module, kept as they were after loading and written back before each batch.

The driver tells where each variable lies. Nothing is kept where one is not found, or where the memory does not hold
what the cubin says.
"""

from collections.abc import Iterable
from ctypes import byref, c_size_t, c_uint64
from dataclasses import dataclass

from . import streams
from .cubin_facts import state_sections
from .cuda_driver import CudaLaunchError, call
from .loaded_kernel import LoadedModule


@dataclass(frozen=True, slots=True)
class _Kept:
    address: int
    content: bytes
    zero: bool
    """All of the content is 0."""


class ModuleState:
    """The variables of modules; take it right after loading, before a kernel has run."""

    def __init__(self, kept: Iterable[_Kept]) -> None:
        self._kept = tuple(kept)

    @classmethod
    def of(cls, modules: Iterable[tuple[LoadedModule, bytes]]) -> "ModuleState | None":
        """Return the state of modules and their cubins; None where some variables cannot be found."""
        kept = []
        for module, image in modules:
            for section in state_sections(image):
                found = [_found(module, name, section.content, offset) for name, offset in section.offsets.items()]
                if not found:
                    return None
                kept += found
        return cls(each for each in kept if each is not None) if None not in kept else None

    def restore(self, stream: streams.Stream) -> None:
        """Write all variables, or queue that; no kernel may be running. Raises `CudaLaunchError`."""
        for each in self._kept:
            if each.zero:
                stream.fill(each.address, pattern=0, width=1, count=len(each.content))
            else:
                streams.write(each.address, each.content)


def _found(module: LoadedModule, name: str, content: bytes, offset: int) -> _Kept | None:
    """Return a variable, or None where it is not found with what a section's content has at an offset."""
    address, size_bytes = c_uint64(), c_size_t()
    try:
        call("cuModuleGetGlobal_v2", byref(address), byref(size_bytes), module.handle, name.encode())
    except CudaLaunchError:
        return None
    due = content[offset : offset + size_bytes.value]
    kept = _Kept(address.value, due, zero=not due.strip(b"\0"))
    return kept if streams.read(address.value, size_bytes.value) == due else None
