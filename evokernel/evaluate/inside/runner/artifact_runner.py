"""Launches recorded kernels: the trusted process of artifact mode, with a context and nothing else in it.

No candidate's host code runs here and none is imported; only device code is untrusted. The judge sends checked plans,
and names the buffers of each batch. A batch is captured as one graph: work of our own, so that every batch meets the
same memory, the same caches and an awake GPU, an event, the calls, an event. The answer is the device's time between
the two. A prepared batch does no work on the device until it is fired, since the judge uses it meanwhile. A kernel that
fails destroys the context, so this process ends then.

No batch finds what an earlier one has left: scratch, variables, shared and local memory are overwritten, the buffers of
other workloads are not mapped, and lines that a kernel asked the cache to keep are given up.
"""

import json
import select
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ..driver import streams, virtual_memory
from ..driver.cuda_driver import CudaLaunchError
from ..driver.memory_scrub import MemoryScrub, frame_for
from ..driver.tlb_warmup import TlbWarmup
from ..process import bundle
from ..process.descriptors import keep_only, requests
from ..process.seal import PR_SET_DUMPABLE, isolate, prctl, seal
from ..process.shared_flag import SharedFlags, interruptions
from .mapped_memory import MappedArena, PrivateMemory
from .recorded_candidate import RecordedCandidate, RecordedStep

STDERR, CHANNEL, FLAGS = 2, 3, 4
TEXT_LIMIT = 2000
_LOOKS = 2000  # reads of the flag between two of the channel
PLAN, CUBINS = "plan.json", "cubins/"
_OUT_OF_MEMORY = "CUDA error 2 "


def run(spec: dict[str, Any], uid: int | None, descriptors: list[int], _: object) -> None:
    """Become a runner for good. `descriptors`: channel to the judge, page of flags, file for stderr."""
    keep_only(descriptors, (CHANNEL, FLAGS, STDERR))
    channel = socket.socket(fileno=CHANNEL)
    flags = SharedFlags(FLAGS)
    isolate(spec)
    seal(spec, uid)
    prctl(PR_SET_DUMPABLE, 1)  # after a change of user id the driver could not open its own /proc otherwise
    virtual_memory.retain_primary_context()
    prctl(PR_SET_DUMPABLE, 0)
    options = {name: spec[name] for name in ("prelude_bytes", "multiprocessors", "spin")}
    _Runner(channel, flags, **options).serve()


class _Runner:
    def __init__(
        self, channel: socket.socket, flags: SharedFlags, *, prelude_bytes: int, multiprocessors: int, spin: bool
    ) -> None:
        self._channel = channel
        self._flags = flags
        self._spin = spin
        self._stream = streams.Stream()
        self._watch = streams.Stopwatch()
        self._source, self._target = (PrivateMemory(prelude_bytes, writable=writable) for writable in (False, True))
        self._touch = TlbWarmup(multiprocessors=multiprocessors, sink=self._target.address)
        self._scrub = MemoryScrub(counter=self._target.address)
        self._frame_bytes = 0
        self._poller = select.poll()
        self._poller.register(channel, select.POLLIN)
        self._arenas: dict[str, MappedArena] = {}
        self._candidate: RecordedCandidate | None = None
        self._graph: streams.CapturedGraph | None = None

    def serve(self) -> None:
        self._channel.send(b"up")
        for request, descriptors in requests(self._channel):
            try:
                self._answer(request, descriptors)
            except Exception as error:  # noqa: BLE001  the judge must hear of any error and its likely cause
                ours = "attach" in request or not isinstance(error, CudaLaunchError)
                self._channel.send(json.dumps(_fault(error, ours=ours)).encode())
                return

    def _answer(self, request: Mapping[str, Any], descriptors: Sequence[int]) -> None:
        match request:
            case {"batch": arena}:
                self._batch(arena, request)
            case {"load": _}:
                self._load(descriptors[0])
                self._channel.send(b"loaded")
            case {"attach": name}:
                self._detach(name.rpartition(":")[0])
                self._arenas[name] = MappedArena(request, descriptors)
                self._channel.send(b"attached")
            case {"drop": _}:
                self._drop()
                self._channel.send(b"dropped")
            case _:
                raise ValueError(f"an unknown request: {sorted(request)}")

    def _detach(self, stem: str) -> None:
        """Unmap the arena that another one replaces: the same name but for its generation."""
        for old in [name for name in self._arenas if name.rpartition(":")[0] == stem]:
            self._arenas.pop(old).close()

    def _load(self, descriptor: int) -> None:
        with open(descriptor, "rb") as file:
            files = bundle.unpack(file.read())
        cubins = {name.removeprefix(CUBINS): image for name, image in files.items() if name.startswith(CUBINS)}
        self._drop()
        self._candidate = RecordedCandidate(json.loads(files[PLAN]), cubins, self._stream)
        self._frame_bytes = frame_for(self._candidate.local_bytes)
        self._scrub.prepare(self._frame_bytes)

    def _drop(self) -> None:
        self._close_graph()
        if self._candidate is not None:
            self._candidate.close()
            self._candidate = None

    def _batch(self, arena: str, request: Mapping[str, Any]) -> None:
        candidate, sets = self._candidate, self._arenas[arena].sets
        if candidate is None:
            raise ValueError("a batch before a candidate")
        shape, number = request["shape"], request["number"]
        self._close_graph()
        self._show(arena)
        candidate.reset_state()
        candidate.select_shape(shape)
        calls = [candidate.call(arena, chosen, sets[chosen]) for chosen in request["sets"]]
        with self._stream.captured() as graph:
            self._scrub.queue(self._stream, frame_bytes=self._frame_bytes, word=request["poison"])
            candidate.poison(request["poison"])
            self._stream.copy(self._target.address, self._source.address, size_bytes=self._target.size_bytes)
            for address, size in self._arenas[arena].memories:
                self._touch.queue(self._stream.handle, address, size_bytes=size)
            self._watch.begin(self._stream.handle, in_graph=True)
            for steps in calls:
                queue_call(self._stream, steps)
            self._watch.end(self._stream.handle, in_graph=True)
        graph.upload(self._stream)
        streams.synchronize()  # making a graph uses the device: a baseline beside it took 0.4 ms longer
        before = interruptions()
        self._flags.armed = number
        if self._wait_to_fire(number):
            begin = time.monotonic_ns()
            graph.upload(self._stream)
            graph.launch(self._stream)
            self._stream.wait()
            outer_ns = float(time.monotonic_ns() - begin)
            device_ns = self._watch.elapsed_ns()
            streams.release_persisting_lines()  # before the judge goes on: the baseline may be next
            lost = interruptions() - before
            self._flags.finish(number, device_ns=device_ns, outer_ns=outer_ns, interruptions=lost)
        self._graph = graph  # closed only before the next one is made: the baseline may be running now

    def _show(self, arena: str) -> None:
        """Map the buffers of one workload, and no others."""
        for name, each in self._arenas.items():
            if name != arena:
                each.hide()
        self._arenas[arena].show()

    def _close_graph(self) -> None:
        if self._graph is not None:
            self._graph.close()
            self._graph = None

    def _wait_to_fire(self, number: int) -> bool:
        """Wait for the flag; return False where a message or the end of the channel cancels the batch."""
        while self._flags.go < number:
            patience_ms = 0 if self._spin else 1
            for _ in range(_LOOKS):
                if self._flags.go >= number:
                    return True
            if self._poller.poll(patience_ms):
                return False
        return True


def queue_call(stream: streams.Stream, steps: Sequence[RecordedStep]) -> None:
    """Queue one call of a captured batch; what follows waits for all of its steps.

    A launch that began early may end before the step before it. Then work behind that launch alone would overlap with
    this step.
    """
    overtaken: set[int] = set()
    for step in steps:
        step.queue()
        if step.overtaken:
            overtaken.update(stream.latest_nodes())
    if overtaken:
        stream.wait_for_nodes(overtaken)


def _fault(error: Exception, *, ours: bool) -> dict[str, Any]:
    text = str(error)[:TEXT_LIMIT] or type(error).__name__
    return {"fault": "ours" if ours else "memory" if text.startswith(_OUT_OF_MEMORY) else "device", "text": text}
