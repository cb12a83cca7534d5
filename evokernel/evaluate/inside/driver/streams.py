"""Streams, events and captured graphs through the CUDA driver alone, in the context that is current."""

import ctypes
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from ctypes import POINTER, byref, c_int, c_size_t, c_uint64, c_void_p

from .cuda_driver import CudaLaunchError, call, call_where_supported

_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING
_THIS_THREAD = 1  # CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
_EXTERNAL = 1  # CU_EVENT_RECORD_EXTERNAL
_ADD = 0  # CU_STREAM_ADD_CAPTURE_DEPENDENCIES


def allocate(size_bytes: int) -> int:
    """Return the address of new device memory, aligned to 256 bytes. Raises `CudaLaunchError`."""
    address = c_uint64()
    call("cuMemAlloc_v2", byref(address), size_bytes)
    return address.value


def free(address: int) -> None:
    """Free device memory."""
    call("cuMemFree_v2", address)


def write(address: int, content: bytes) -> None:
    """Copy bytes of the host to device memory and wait for that."""
    call("cuMemcpyHtoD_v2", address, content, len(content))


def read(address: int, size_bytes: int) -> bytes:
    """Return bytes of device memory, when earlier work of the default stream is done."""
    content = ctypes.create_string_buffer(size_bytes)
    call("cuMemcpyDtoH_v2", content, address, size_bytes)
    return content.raw


def release_persisting_lines() -> None:
    """Let ordinary work replace the lines of the second-level cache that a kernel asked to keep."""
    call_where_supported("cuCtxResetPersistingL2Cache")


def upload(graph: int | c_void_p, stream: int) -> None:
    """Queue the one-time work of a graph's first launch."""
    call("cuGraphUpload", graph, stream)


def synchronize() -> None:
    """Wait until all work that this process queued on the device is done. Raises its `CudaLaunchError`."""
    call("cuCtxSynchronize")


class Stream:
    """A stream of its own, which does not wait for the default one."""

    def __init__(self) -> None:
        handle = c_void_p()
        call("cuStreamCreate", byref(handle), _NON_BLOCKING)
        self.handle: int = handle.value or 0

    def wait(self) -> None:
        """Wait for all queued work. Raises its `CudaLaunchError`."""
        call("cuStreamSynchronize", self.handle)

    def fill(self, address: int, *, pattern: int, width: int, count: int) -> None:
        """Queue a fill of `count` words of 1, 2 or 4 bytes."""
        call(f"cuMemsetD{8 * width}Async", address, pattern, count, self.handle)

    def copy(self, target: int, source: int, *, size_bytes: int) -> None:
        """Queue a copy within device memory."""
        call("cuMemcpyDtoDAsync_v2", target, source, size_bytes, self.handle)

    def latest_nodes(self) -> list[int]:
        """Return the nodes of the graph being captured that the next work waits for."""
        status, number, graph = c_int(), c_uint64(), c_void_p()
        nodes, count = POINTER(c_void_p)(), c_size_t()
        outputs = (byref(each) for each in (status, number, graph, nodes, count))
        call("cuStreamGetCaptureInfo_v2", self.handle, *outputs)
        return [nodes[index] or 0 for index in range(count.value)]

    def wait_for_nodes(self, nodes: Collection[int]) -> None:
        """Make the next captured work wait until these nodes are complete, too."""
        more = sorted(set(nodes) - set(self.latest_nodes()))
        if more:
            call("cuStreamUpdateCaptureDependencies", self.handle, (c_void_p * len(more))(*more), len(more), _ADD)

    @contextmanager
    def captured(self) -> Iterator["CapturedGraph"]:
        """Collect the work that is queued in this context in a graph instead of running it."""
        graph = CapturedGraph()
        call("cuStreamBeginCapture_v2", self.handle, _THIS_THREAD)
        captured = c_void_p()
        try:
            yield graph
        except CudaLaunchError:
            with suppress(CudaLaunchError):  # the first refusal is the error that counts
                call("cuStreamEndCapture", self.handle, byref(captured))
            raise
        call("cuStreamEndCapture", self.handle, byref(captured))
        try:
            call("cuGraphInstantiateWithFlags", byref(graph.handle), captured, 0)
        finally:
            call("cuGraphDestroy", captured)


class CapturedGraph:
    """A captured graph, ready to be launched."""

    def __init__(self) -> None:
        self.handle = c_void_p()

    def upload(self, stream: Stream) -> None:
        """Queue the one-time work of the first launch."""
        upload(self.handle, stream.handle)

    def launch(self, stream: Stream) -> None:
        """Queue the whole graph."""
        call("cuGraphLaunch", self.handle, stream.handle)

    def close(self) -> None:
        """Destroy the graph, which must not be running."""
        call("cuGraphExecDestroy", self.handle)


class Stopwatch:
    """Two events: the device's own time between two points of a stream or of a captured graph."""

    def __init__(self) -> None:
        self._begin, self._end = c_void_p(), c_void_p()
        for event in (self._begin, self._end):
            call("cuEventCreate", byref(event), 0)

    def begin(self, stream: int, *, in_graph: bool) -> None:
        """Queue the first point; `in_graph` where the stream is being captured."""
        call("cuEventRecordWithFlags", self._begin, stream, _EXTERNAL if in_graph else 0)

    def end(self, stream: int, *, in_graph: bool) -> None:
        """Queue the second point."""
        call("cuEventRecordWithFlags", self._end, stream, _EXTERNAL if in_graph else 0)

    def elapsed_ns(self) -> float:
        """Return the time between the two, in ns, resolved to about 30; the stream must have been waited for."""
        milliseconds = ctypes.c_float()
        call("cuEventElapsedTime", byref(milliseconds), self._begin, self._end)
        return milliseconds.value * 1e6
