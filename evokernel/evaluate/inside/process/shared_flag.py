"""A shared page of memory through which two processes exchange numbers in less than a microsecond.

A message over a socket takes ten times as long, and longer still where one side polls for it.
"""

import ctypes
import mmap
import os
import resource

_BYTES = 4096


def interruptions() -> int:
    """Return how often other programs have taken this thread's core although it had more to do.

    A late wake-up from sleep, as where there are too few cores to spin on, does not count.
    """
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw


class _Layout(ctypes.Structure):
    # each number has a cache line of its own, and the next one, which the processor prefetches
    _fields_ = (
        ("armed", ctypes.c_uint64),
        ("pad0", ctypes.c_uint64 * 15),
        ("go", ctypes.c_uint64),
        ("pad1", ctypes.c_uint64 * 15),
        ("done", ctypes.c_uint64),
        ("device_ns", ctypes.c_double),
        ("outer_ns", ctypes.c_double),
        ("interruptions", ctypes.c_uint64),
    )


class SharedFlags:
    """The page, mapped from a descriptor. Batches are numbered from 1; each number is that of the latest one.

    The judge writes `go`, the runner `armed` and `done`, the latter after `device_ns`, `outer_ns` and `interruptions`.
    """

    def __init__(self, descriptor: int) -> None:
        self._page = mmap.mmap(descriptor, _BYTES)
        self._at = _Layout.from_buffer(self._page)

    def close(self) -> None:
        """Unmap the page; no number can be read or written any more."""
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
        """The number of the batch that the runner must run."""
        self._at.go = number

    @property
    def done(self) -> int:
        """The number of the last batch that was run."""
        return int(self._at.done)

    @property
    def device_ns(self) -> float:
        """The time of that batch on the device, in ns."""
        return float(self._at.device_ns)

    @property
    def outer_ns(self) -> float:
        """The time of that batch by the runner's clock, from its launch until all of its work was done, in ns."""
        return float(self._at.outer_ns)

    @property
    def interruptions(self) -> int:
        """The times that the runner lost its core since it was armed, although it had more to do."""
        return int(self._at.interruptions)

    def finish(self, number: int, *, device_ns: float, outer_ns: float = 0.0, interruptions: int = 0) -> None:
        """Report a finished batch, its times, and its interruptions."""
        self._at.device_ns = device_ns
        self._at.outer_ns = outer_ns
        self._at.interruptions = interruptions
        self._at.done = number
