"""Memory of stand-in tensors: its names, its sizes, and the bytes that a tensor covers."""

from typing import Any

import torch

from .stand_in_tensors import StandIn

WIDTH_BYTES = 4  # of the widest pattern that the device's memset repeats


class Buffers:
    """Names of the memory behind tensors: those of the arguments, then scratch in order of use.

    As an allocator does, scratch takes the place of tensors that the host code holds no more.

    Attributes:
        scratch: bytes of each scratch buffer by name.
    """

    def __init__(self) -> None:
        """Start without any memory."""
        self.scratch: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._kept: list[Any] = []  # keeps storages alive, so that no two share a number
        self._last: dict[str, int] = {}  # the storage that each scratch buffer holds

    def name(self, tensor: StandIn, name: str) -> None:
        """Name the memory of a tensor."""
        storage = tensor.untyped_storage()
        self._kept.append(storage)
        self._names[storage._cdata] = name

    def place(self, tensor: Any) -> tuple[str, int]:
        """Return the name of a tensor's memory and its offset there in bytes.

        Raises `ValueError` if the tensor is not on the GPU.
        """
        if not isinstance(tensor, StandIn):
            raise ValueError("a kernel was given a tensor on the CPU: make scratch with device=x.device")
        storage = tensor.untyped_storage()
        if storage._cdata not in self._names:
            size_bytes = int(storage.nbytes())
            name = self._free(size_bytes) or f"scratch{len(self.scratch)}"
            self.name(tensor, name)
            self._last[name] = storage._cdata
            self.scratch[name] = max(size_bytes, self.scratch.get(name, 0))
        return self._names[storage._cdata], int(tensor.storage_offset()) * tensor.element_size()

    def _free(self, size_bytes: int) -> str:
        """Return the scratch buffer that nobody holds whose size is nearest, or nothing."""
        free = [name for name, last in self._last.items() if torch._C._storage_Use_Count(last) == 1]  # that of `_kept`
        return min(free, key=lambda name: abs(self.scratch[name] - size_bytes), default="")


def pattern_of(value: Any, dtype: Any) -> bytes:
    """Return the bytes of one element, or half of them where they repeat; nothing for a number on the device."""
    if isinstance(value, StandIn):
        return b""
    element = bytes(torch.full((1,), value, dtype=dtype, device="cpu").view(torch.uint8).tolist())
    half = element[: len(element) // 2]
    return half if len(element) > WIDTH_BYTES and element == half * 2 else element


def layout(tensor: Any) -> list[tuple[int, int]]:
    """Return extent and stride, in elements, of the dimensions that have more than one."""
    return [(size, step) for size, step in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]


def is_dense(tensor: Any) -> bool:
    """Say whether the elements fill one range of memory, each place once, in any order."""
    expected = 1
    for size, step in sorted(layout(tensor), key=lambda each: each[1]):
        if step != expected:
            return False
        expected *= size
    return True
