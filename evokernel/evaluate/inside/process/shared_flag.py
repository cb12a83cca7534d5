"""A page of memory that two processes share, to tell each other a number in less than a microsecond.

A message over a socket costs ten times as much to notice, and more where one side asks for it again and again.
"""

import ctypes
import mmap
import os
import resource

_BYTES = 4096


def interruptions() -> int:
    """Return how often this thread has lost its core so far although it had more to do: to other programs.

    One that had gone to sleep, as where there are too few cores to spin on, and was woken late does not show here.
    """
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw


class _Layout(ctypes.Structure):
    # each number has a cache line of its own, and the one the processor fetches along
    _fields_ = (
        ("armed", ctypes.c_uint64),
        ("pad0", ctypes.c_uint64 * 15),
        ("go", ctypes.c_uint64),
        ("pad1", ctypes.c_uint64 * 15),
        ("done", ctypes.c_uint64),
        ("device_ns", ctypes.c_double),
        ("interruptions", ctypes.c_uint64),
    )


class SharedFlags:
    """The page, mapped from a descriptor. Batches are numbered from 1; each number is that of the latest one.

    The judge writes `go`, the runner `armed` and `done`, the latter after `device_ns` and `interruptions`.
    """

    def __init__(self, descriptor: int) -> None:
        self._page = mmap.mmap(descriptor, _BYTES)
        self._at = _Layout.from_buffer(self._page)

    def close(self) -> None:
        """Let go of the page; no number can be read or written any more."""
        del self._at
        self._page.close()

    @staticmethod
    def make() -> int:
        """Return the descriptor of a new page of zeros."""
        descriptor = os.memfd_create("flags", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, _BYTES)
        return descriptor

    @property
    def armed(self) -> int:
        """The number of the batch that can be fired."""
        return int(self._at.armed)

    @armed.setter
    def armed(self, number: int) -> None:
        self._at.armed = number

    @property
    def go(self) -> int:
        """The number of the batch that is to be run."""
        return int(self._at.go)

    @go.setter
    def go(self, number: int) -> None:
        self._at.go = number

    @property
    def done(self) -> int:
        """The number of the batch that was run."""
        return int(self._at.done)

    @property
    def device_ns(self) -> float:
        """How long that took on the device, in ns."""
        return float(self._at.device_ns)

    @property
    def interruptions(self) -> int:
        """How often the runner lost its core since it was armed, although it had more to do."""
        return int(self._at.interruptions)

    def finish(self, number: int, *, device_ns: float, interruptions: int = 0) -> None:
        """Say that a batch was run, how long it took, and how often that was interrupted."""
        self._at.device_ns = device_ns
        self._at.interruptions = interruptions
        self._at.done = number
