"""The structures are those of cuda.h (CUDA 12 and 13, 64 bit); the calls need a GPU and are tried in tests/gpu."""

import ctypes

import pytest

from evokernel.evaluate.inside.driver.virtual_memory import (
    AllocationFlags,
    AllocationProperties,
    Location,
    MemoryAccess,
)


@pytest.mark.parametrize(
    ("kind", "size", "offsets"),
    [
        (Location, 8, {"type": 0, "id": 4}),
        (AllocationFlags, 8, {"compression": 0, "rdma_capable": 1, "usage": 2, "reserved": 4}),
        (AllocationProperties, 32, {"type": 0, "handle_types": 4, "location": 8, "win32_metadata": 16, "flags": 24}),
        (MemoryAccess, 12, {"location": 0, "flags": 8}),
    ],
)
def test_structures_have_the_layout_of_the_header(kind: type[ctypes.Structure], size: int, offsets: dict[str, int]):
    assert ctypes.sizeof(kind) == size
    assert {name: getattr(kind, name).offset for name in offsets} == offsets
