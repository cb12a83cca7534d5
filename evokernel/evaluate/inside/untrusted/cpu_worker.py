"""Holds one candidate: seals itself, loads it, and calls it on request. The candidate may overwrite everything here.

So the judge believes nothing but "I am done": it reads the clock and checks the buffers itself.
"""

import ctypes
import errno
import json
import mmap
import os
import socket
from typing import Any

from ..process.descriptors import keep_only, requests
from ..process.seal import LIBC, PR_SET_DUMPABLE, check, isolate, prctl, seal

STDERR, CHANNEL, ARTIFACT = 2, 3, 4
PROT_NONE, POPULATE_WRITE = 0, 23
SYS_MSEAL = 462


def load_trampoline(spec: dict[str, Any]) -> ctypes.CDLL:
    """Return the trampoline, loaded once for all workers."""
    return ctypes.CDLL(f"/proc/self/fd/{spec['files']['trampoline']}")


def run(spec: dict[str, Any], uid: int | None, descriptors: list[int], trampoline: ctypes.CDLL) -> None:
    """Become a worker for good. `descriptors`: channel to the judge, sealed artifact, file for stderr."""
    keep_only(descriptors, (CHANNEL, ARTIFACT, STDERR))
    channel = socket.socket(fileno=CHANNEL)
    isolate(spec)
    trampoline.evk_catch_abort()
    seal(spec, uid)
    _Worker(channel, trampoline).serve()


class _Worker:
    def __init__(self, channel: socket.socket, trampoline: ctypes.CDLL) -> None:
        self.channel = channel
        self.calls = trampoline.evk_calls
        self.calls.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long, ctypes.c_long, ctypes.c_long]
        self.calls.restype = None
        self.calls_and_shut = trampoline.evk_calls_and_shut
        self.calls_and_shut.argtypes = [*self.calls.argtypes, ctypes.c_void_p, ctypes.c_long]
        self.calls_and_shut.restype = None
        self.kernel = ctypes.c_void_p()
        self.arenas: dict[str, tuple[ctypes.Array[ctypes.c_uint64], int]] = {}
        self.mappings: dict[str, list[tuple[int, int]]] = {}
        self.outputs: dict[str, tuple[int, int]] = {}
        self.shut: tuple[int, int] | None = None

    def serve(self) -> None:
        if not self._load():
            return
        for request, descriptors in requests(self.channel):
            if "prepare" in request:
                self._prepare(request)
            else:
                self._attach(request, descriptors)

    def _load(self) -> bool:
        path = f"/proc/self/fd/{ARTIFACT}"
        # A change of user id made /proc/self unreadable; it is needed for this one look-up.
        prctl(PR_SET_DUMPABLE, 1)
        try:
            library = ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL)
            self.kernel = ctypes.cast(library.run, ctypes.c_void_p)
        except (OSError, AttributeError) as error:
            self.channel.send(json.dumps({"error": str(error).replace(path, "the candidate")}).encode())
            return False
        prctl(PR_SET_DUMPABLE, 0)  # other workers of the same user must not read this one's memory
        os.close(ARTIFACT)
        self.channel.send(b"loaded")
        return True

    def _attach(self, request: dict[str, Any], descriptors: list[int]) -> None:
        name = request["attach"]
        if self.outputs.pop(name, None) == self.shut:
            self.shut = None
        for base, size in self.mappings.pop(name, ()):
            check(LIBC.munmap(ctypes.c_void_p(base), ctypes.c_size_t(size)), "munmap")
        sizes = [os.fstat(descriptor).st_size for descriptor in descriptors]
        bases = [0, *(_map(fd, write=bool(index)) for index, fd in enumerate(descriptors))]
        self.mappings[name] = [
            (base + begin, length)
            for base, size, fences in zip(bases[1:], sizes, request["fences"], strict=True)
            for begin, length in _between(fences, size)
        ]
        for base, fences in zip(bases[1:], request["fences"], strict=True):
            for begin, size in fences:
                _close_for_good(base + begin, size)
        if not any(request["fences"]):  # to open outputs again would open the fences
            self.outputs[name] = self.mappings[name][-1]
        strides = [0, *request["strides"]]
        words = [
            (bases[base] + set_index * strides[base] + value) % (1 << 64)
            for set_index in range(request["sets"])
            for base, value in request["arguments"]
        ]
        self.arenas[name] = ((ctypes.c_uint64 * len(words))(*words), request["sets"])
        self.channel.send(b"attached")

    def _prepare(self, request: dict[str, Any]) -> None:
        words, sets = self.arenas[request["prepare"]]
        if self.shut is not None:
            _protect(*self.shut, mmap.PROT_READ | mmap.PROT_WRITE)
            LIBC.madvise(*map(ctypes.c_size_t, (*self.shut, POPULATE_WRITE)))  # a timed call pays for no page fault
        self.shut = self.outputs.get(request["prepare"]) if request.get("shut") else None
        arguments = (self.kernel, words, sets, request["first_set"], request["calls"])
        if request["warm_set"] is not None:
            self.calls(self.kernel, words, sets, request["warm_set"], 1)
        self.channel.send(b"ready")
        if self.channel.recv(16) == b"go":
            if self.shut is None:
                self.calls(*arguments)
            else:
                self.calls_and_shut(*arguments, *self.shut)
            self.channel.send(b"done")


def _between(fences: list[list[int]], size: int) -> list[tuple[int, int]]:
    """Return the ranges (offset, bytes) of a mapping that are no fences; only they can be unmapped."""
    edges = [0, *(edge for begin, length in fences for edge in (begin, begin + length)), size]
    return [(begin, end - begin) for begin, end in zip(edges[::2], edges[1::2], strict=True) if begin < end]


def _close_for_good(begin: int, size: int) -> None:
    """Take away all access to some pages, and where Linux has mseal(2) (6.10), keep a candidate from changing that."""
    _protect(begin, size, PROT_NONE)
    LIBC.syscall(SYS_MSEAL, *map(ctypes.c_size_t, (begin, size, 0)))


def _protect(begin: int, size: int, protection: int) -> None:
    check(LIBC.mprotect(ctypes.c_void_p(begin), ctypes.c_size_t(size), protection), "mprotect")


def _map(descriptor: int, *, write: bool) -> int:
    """Map a whole memory file and populate it, so that no timed call pays for a page fault; return its address."""
    size = os.fstat(descriptor).st_size
    protection = mmap.PROT_READ | (mmap.PROT_WRITE if write else 0)
    LIBC.mmap.restype = ctypes.c_void_p
    LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
    address = LIBC.mmap(None, size, protection, flags, descriptor, 0)
    if address is None or address == ctypes.c_void_p(-1).value:
        number = ctypes.get_errno()
        if number == errno.ENOMEM:
            raise MemoryError(f"{size} bytes of buffers and what it has taken itself are beyond the memory limit")
        raise OSError(number, "mmap of an arena failed")
    os.close(descriptor)
    return int(address)
