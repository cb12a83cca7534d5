"""Overwrites the shared memory and the threads' local memory of every multiprocessor: both outlive a kernel.

The blocks of one launch fill all multiprocessors and wait for each other, so each place where a thread can be is taken
once. Local memory lies by place and by offset: a frame as large as a kernel's own covers whatever that kernel left.
Shared memory is overwritten by a launch of its own, with one block on each multiprocessor: each block has a KiB that
only the driver may write, and several blocks would leave as many of them. Where the one KiB lies, kernels of small
blocks may have had data: on an H100 that much is left on each multiprocessor, 0.4 % of its shared memory.
"""

from ctypes import byref, c_int
from pathlib import Path
from string import Template

from .cuda_driver import call
from .kernel_parameters import POINTER, Parameter
from .loaded_kernel import LoadedKernel, LoadedModule, Shape
from .streams import Stream

_DEVICE = 0
_MULTIPROCESSORS, _THREADS_EACH, _SHARED_OF_BLOCK = 16, 39, 97  # CU_DEVICE_ATTRIBUTE_*
_THREADS = 512  # divides the threads of a multiprocessor on every device
_STACK_BYTES = 1024  # CU_LIMIT_STACK_SIZE, for calls whose depth no compiler knows
_FRAME_UNIT = 512
_FRAME_LIMIT_BYTES = 511 << 10  # a thread has 512 KiB at most
_WORD_BYTES = 4
_PTX = Template(Path(__file__).with_suffix(".ptx").read_text(encoding="utf-8"))
_DECLARATION = ".local .align 16 .b8 frame[{frame_bytes}];\n    .reg .u64 %place;"
_FILL = Template(Path(__file__).with_name("memory_scrub_frame.ptx").read_text(encoding="utf-8").rstrip())
# It reads one word back, which no compiler foresees: otherwise the stores would be left out.


def frame_for(local_bytes: int) -> int:
    """Return the frame that covers a kernel's local memory, with what it may call, in bytes; 0 where it has none."""
    if not local_bytes:
        return 0
    return min(-(-(local_bytes + _STACK_BYTES) // _FRAME_UNIT) * _FRAME_UNIT, _FRAME_LIMIT_BYTES)


def scrub_ptx(frame_bytes: int) -> bytes:
    """Return the kernel for a frame of that many bytes in each thread, or for shared memory alone."""
    declaration = _DECLARATION.format(frame_bytes=frame_bytes) if frame_bytes else ""
    fill = _FILL.substitute(frame_bytes=frame_bytes, words=frame_bytes // _WORD_BYTES) if frame_bytes else ""
    text = _PTX.substitute(threads=_THREADS, step=_WORD_BYTES * _THREADS, declaration=declaration, fill=fill)
    return text.encode() + b"\0"


class MemoryScrub:
    """The kernels, one for each size of a frame, in the current context. `counter` is the address of a free word."""

    def __init__(self, *, counter: int) -> None:
        self._counter = counter
        self._multiprocessors = _attribute(_MULTIPROCESSORS)
        self._blocks_each = _attribute(_THREADS_EACH) // _THREADS
        self._shared_bytes = _attribute(_SHARED_OF_BLOCK)
        self._kernels: dict[int, LoadedKernel] = {}
        self.prepare(0)

    def prepare(self, frame_bytes: int) -> None:
        """Compile the kernel for a frame, which a capture must not do. Raises `CudaLaunchError`."""
        if frame_bytes not in self._kernels:
            module = LoadedModule(scrub_ptx(frame_bytes))
            shared_bytes = 0 if frame_bytes else self._shared_bytes
            kernel = self._kernels[frame_bytes] = LoadedKernel(module, "scrub", shared_bytes)
            kernel.prefer_shared_memory()

    def queue(self, stream: Stream, *, frame_bytes: int, word: int) -> None:
        """Queue the work with a prepared frame; `word` is what the memory holds then. Raises `CudaLaunchError`."""
        self._launch(stream, 0, blocks_each=1, shared_bytes=self._shared_bytes, word=word)
        if frame_bytes:
            self._launch(stream, frame_bytes, blocks_each=self._blocks_each, shared_bytes=0, word=word)

    def _launch(self, stream: Stream, frame_bytes: int, *, blocks_each: int, shared_bytes: int, word: int) -> None:
        blocks = blocks_each * self._multiprocessors
        stream.fill(self._counter, pattern=0, width=_WORD_BYTES, count=1)
        shape = Shape((blocks, 1, 1), (_THREADS, 1, 1), 1, shared_bytes, True, False)
        parameters = [Parameter("u32", number) for number in (blocks, shared_bytes, word)]
        self._kernels[frame_bytes].launch(shape, [Parameter(POINTER, self._counter), *parameters], stream.handle)


def _attribute(number: int) -> int:
    value = c_int()
    call("cuDeviceGetAttribute", byref(value), number, _DEVICE)
    return value.value
