"""Maps an arena of device memory into a process as tensors; the counterpart of `Arena.layout`."""

import os
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from . import virtual_memory


class DeviceSets:
    """One arena as this process sees it: `tensors` holds the tensors of each set by name. Inputs cannot be written."""

    def __init__(self, request: Mapping[str, Any], descriptors: Sequence[int]) -> None:
        """Map the memory of inputs and outputs from their descriptors; close the descriptors."""
        self._mapped: list[tuple[int, int]] = []
        memories = []
        for index, (descriptor, size) in enumerate(zip(descriptors, request["sizes"], strict=True)):
            handle = virtual_memory.import_fd(descriptor)
            os.close(descriptor)
            address = virtual_memory.map(handle, size, writable=bool(index))
            virtual_memory.release(handle)  # the mapping keeps the memory
            self._mapped.append((address, size))
            memories.append(virtual_memory.as_bytes_tensor(address, size))
        self.tensors = [_one_set(request, memories, number) for number in range(request["sets"])]

    def close(self) -> None:
        """Unmap the memory; no tensor of it may be used any more, and no kernel may be at work on it."""
        self.tensors.clear()
        while self._mapped:
            virtual_memory.unmap(*self._mapped.pop())


def _one_set(request: Mapping[str, Any], memories: Sequence[Any], number: int) -> dict[str, Any]:
    import torch

    tensors = {}
    for name, shape, dtype, _, segment, offset in request["buffers"]:
        element, strides = getattr(torch, dtype), request["layouts"].get(name)
        start = offset + number * request["strides"][segment]
        count = elements(shape, strides)
        flat = memories[segment][start : start + count * element.itemsize].view(element)
        tensors[name] = flat.view(shape) if strides is None else flat.as_strided(shape, strides)
    return tensors


def elements(shape: Sequence[int], strides: Sequence[int] | None) -> int:
    """Return the elements of a buffer: without strides it is row-major, else from the first element to the last."""
    if strides is None or 0 in shape:
        return prod(shape)
    return 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
