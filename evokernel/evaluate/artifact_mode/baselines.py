"""Baselines in the judge's own context, timed as recorded candidates are: batches in a graph, between two events.

A baseline is trusted, so it may live where the references are. Its temporaries stay in this context, where no
candidate's kernel can reach them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import torch

from evokernel.errors import HarnessError
from evokernel.evaluate.artifact_mode.runner_pool import PreludeSize
from evokernel.evaluate.bench.workload import BoundWorkload
from evokernel.evaluate.inside.driver.streams import Stopwatch, upload
from evokernel.evaluate.inside.driver.tlb_warmup import TlbWarmup
from evokernel.task import Baseline, Task

_ORDERS = 3
"""Orders of a workload's buffer copies that a baseline is captured for; one is drawn each time."""
_WARM_CALLS = 2

Call = Callable[[], object]


class Prelude:
    """Work before each batch, of a baseline or a candidate, so that both begin with the same caches on an awake GPU.

    It copies as much as the second-level cache holds, and reads every page of the buffers.
    """

    def __init__(self, size: PreludeSize) -> None:
        pieces = [torch.zeros(size.size_bytes, dtype=torch.uint8, device="cuda") for _ in range(2)]
        self._source, self._target = pieces
        self._touch = TlbWarmup(multiprocessors=size.multiprocessors, sink=self._target.data_ptr())

    def queue(self, memories: Sequence[torch.Tensor]) -> None:
        """Queue the work on the current stream; `memories` hold the buffers."""
        self._target.copy_(self._source)
        stream = torch.cuda.current_stream().cuda_stream
        for memory in memories:
            self._touch.queue(stream, memory.data_ptr(), size_bytes=memory.numel())


class Scratch:
    """Device memory for the temporaries of captured calls: one pool for all graphs, since no two run at once.

    A graph keeps its memory as long as it lives: with a pool for each, a cross-entropy took 33 GiB on an H100. Results
    lie outside, in the workload's buffers, so no graph needs another's temporaries.
    """

    def __init__(self) -> None:
        self._keeper = torch.cuda.CUDAGraph()  # torch frees a pool with its last graph and never reuses it
        piece = torch.zeros(1, device="cuda")
        torch.cuda.synchronize()
        with torch.cuda.graph(self._keeper):
            piece.zero_()

    def captured(self, queue: Call) -> torch.cuda.CUDAGraph:
        """Return a graph of the work that `queue` queues on the current stream."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._keeper.pool()):
            queue()
        return graph


class TimedCalls:
    """Calls in a fixed order, captured as graphs; the first `timed` of them are between the events.

    A baseline that waits for the device cannot be captured and is called directly. `scratch` holds temporaries of
    captured calls.
    """

    def __init__(
        self, calls: Sequence[Call], *, timed: int, begin: Call, stopwatch: Stopwatch, scratch: Scratch | None = None
    ) -> None:
        self._begin = begin
        self._timed, self._rest = calls[:timed], calls[timed:]
        self._stopwatch = stopwatch
        self._scratch = scratch or Scratch()
        self._graphs = self._capture()
        self.run_ns()  # the first run uploads the graph

    def run(self) -> None:
        """Queue all calls; `elapsed_ns` is valid after a wait for the device."""
        if self._graphs is None:
            self._queue(in_graph=False)
            _each(self._rest)
        else:
            _upload(self._graphs[0])
            for graph in self._graphs:
                graph.replay()

    def elapsed_ns(self) -> float:
        """Return the time of the timed calls of the latest run, in ns."""
        return self._stopwatch.elapsed_ns()

    def run_ns(self) -> float:
        """Run all calls and wait; return the time of the timed ones together, in ns."""
        self.run()
        torch.cuda.synchronize()
        return self.elapsed_ns()

    def _capture(self) -> list[torch.cuda.CUDAGraph] | None:
        """Capture the timed calls and the others apart, so that a batch ends with its second event."""
        try:
            timed = self._scratch.captured(lambda: self._queue(in_graph=True))
            return [timed, self._scratch.captured(lambda: _each(self._rest))] if self._rest else [timed]
        except torch.cuda.OutOfMemoryError as error:
            raise HarnessError(f"no device memory to capture the baselines: {error}") from error
        except RuntimeError:
            torch.cuda.synchronize()
            return None

    def _queue(self, *, in_graph: bool) -> None:
        stream = torch.cuda.current_stream().cuda_stream
        self._begin()
        self._stopwatch.begin(stream, in_graph=in_graph)
        _each(self._timed)
        self._stopwatch.end(stream, in_graph=in_graph)


def _upload(graph: torch.cuda.CUDAGraph) -> None:
    """Upload a graph now, as for a candidate; otherwise its launch does so between or before the events.

    Older versions of torch do not show the graph. Without this the candidate seemed 0.1 to 0.3 % faster on an H100, in
    batches of 0.4 ms.
    """
    handle = getattr(graph, "raw_cuda_graph_exec", None)
    if handle is not None:
        upload(handle(), torch.cuda.current_stream().cuda_stream)


def _each(calls: Iterable[Call]) -> None:
    for call in calls:
        call()


class DeviceBaselines:
    """The baselines of a task on the buffers of the judge's workloads."""

    def __init__(self, task: Task, functions: Mapping[str, Baseline], *, prelude: Prelude) -> None:
        self._functions = dict(functions)
        self._prelude = prelude
        self._stopwatch, self._scratch = Stopwatch(), Scratch()  # one for all: no two batches run at once
        self._batches: dict[tuple[str, str], list[TimedCalls]] = {}
        tf32 = task.precision.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = tf32
        torch.backends.cudnn.allow_tf32 = tf32

    def add(self, name: str, function: Baseline) -> None:
        """Add one more baseline."""
        self._functions[name] = function

    def batches(self, bound: BoundWorkload, name: str, *, timed: int) -> Sequence[TimedCalls]:
        """Return batches over all buffer copies, one for each of several orders; `timed` calls of each are timed."""
        key = (bound.name, name)
        if key not in self._batches:
            self.forget(bound, name)
            orders = (torch.randperm(bound.sets).tolist() for _ in range(_ORDERS))
            self._batches[key] = [self._capture(bound, name, order, timed=timed) for order in orders]
        return self._batches[key]

    def trial(self, bound: BoundWorkload, name: str, *, calls: int) -> TimedCalls:
        """Return a batch of `calls` calls that goes through the copies in turn, again and again."""
        order = [number % bound.sets for number in range(calls)]
        return self._capture(bound, name, order, timed=calls)

    def forget(self, bound: BoundWorkload, name: str) -> None:
        """Drop the batches of one baseline on a workload, also those over replaced buffers."""
        stem = bound.name.rpartition(":")[0]
        for key in [key for key in self._batches if key[0].rpartition(":")[0] == stem and key[1] == name]:
            del self._batches[key]

    def _capture(self, bound: BoundWorkload, name: str, order: Sequence[int], *, timed: int) -> TimedCalls:
        with torch.no_grad():
            calls = [self._call(bound, name, number) for number in order]
            for _ in range(_WARM_CALLS):  # it may compile, or load modules, which cannot be captured
                calls[0]()
            torch.cuda.synchronize()
            begin = partial(self._prelude.queue, bound.memories)
            return TimedCalls(calls, timed=timed, begin=begin, stopwatch=self._stopwatch, scratch=self._scratch)

    def _call(self, bound: BoundWorkload, name: str, number: int) -> Call:
        function, (inputs, shared) = self._functions[name], bound.call_arguments(number)
        outputs = tuple(map(_on_its_own, shared))

        def call() -> None:
            with torch.no_grad():
                function(inputs, outputs)

        return call


def _on_its_own(array: torch.Tensor) -> torch.Tensor:
    """Return the same memory in a storage of its own: torch compiles nothing that writes two types into one storage."""
    return torch.from_dlpack(array.reshape(-1).view(torch.uint8)).view(array.dtype).view(array.shape)
