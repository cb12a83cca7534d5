"""Baselines in the judge's own context, timed as recorded candidates are: batches in a graph, between two events.

A baseline is trusted, so it may live where the references are. What it computes on the way stays in this context,
where no candidate's kernel can reach it.
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
"""Ways through the copies of a workload's buffers that a baseline is captured for; one of them is drawn each time."""
_WARM_CALLS = 2

Call = Callable[[], object]


class Prelude:
    """What comes first in every batch, of a baseline or a candidate: a copy as large as the second-level cache, and a
    look at every page of the buffers. So both begin with the same caches, on a GPU that is awake.
    """

    def __init__(self, size: PreludeSize) -> None:
        pieces = [torch.zeros(size.size_bytes, dtype=torch.uint8, device="cuda") for _ in range(2)]
        self._source, self._target = pieces
        self._touch = TlbWarmup(multiprocessors=size.multiprocessors, sink=self._target.data_ptr())

    def queue(self, memories: Sequence[torch.Tensor]) -> None:
        """Queue it on the current stream; `memories` are those that the buffers lie in."""
        self._target.copy_(self._source)
        stream = torch.cuda.current_stream().cuda_stream
        for memory in memories:
            self._touch.queue(stream, memory.data_ptr(), size_bytes=memory.numel())


class Scratch:
    """Device memory in which captured calls have their temporaries: one for all graphs, of which no two run at once.

    With one each, those of a cross-entropy took 33 GiB on an H100: a graph keeps its memory as long as it lives. What
    calls compute lies outside, in the workload's buffers, so no graph needs what another has left.
    """

    def __init__(self) -> None:
        self._keeper = torch.cuda.CUDAGraph()  # the memory of graphs ends with the last of them, and is not had again
        piece = torch.zeros(1, device="cuda")
        torch.cuda.synchronize()
        with torch.cuda.graph(self._keeper):
            piece.zero_()

    def captured(self, queue: Call) -> torch.cuda.CUDAGraph:
        """Return a graph of what `queue` queues on the current stream."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._keeper.pool()):
            queue()
        return graph


class TimedCalls:
    """Calls in a fixed order, captured as graphs; the first `timed` of them are between the events.

    A baseline that cannot be captured, since it waits for the device, is called as it is. `scratch` is where captured
    calls have their temporaries.
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
        """Queue all calls; `elapsed_ns` is their time once the device has been waited for."""
        if self._graphs is None:
            self._queue(in_graph=False)
            _each(self._rest)
        else:
            _upload(self._graphs[0])
            for graph in self._graphs:
                graph.replay()

    def elapsed_ns(self) -> float:
        """Return what the timed calls of the latest run took together, in ns."""
        return self._stopwatch.elapsed_ns()

    def run_ns(self) -> float:
        """Run all calls and wait; returns what the timed ones took together, in ns."""
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
    """Do now what the launch would do first, as for a candidate: it is between the events otherwise, or before them.

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

    def batches(self, ground: BoundWorkload, name: str, *, timed: int) -> Sequence[TimedCalls]:
        """Return batches over all copies of a workload's buffers, in several orders, `timed` calls of each timed."""
        key = (ground.name, name)
        if key not in self._batches:
            self.forget(ground, name)
            orders = (torch.randperm(ground.sets).tolist() for _ in range(_ORDERS))
            self._batches[key] = [self._capture(ground, name, order, timed=timed) for order in orders]
        return self._batches[key]

    def trial(self, ground: BoundWorkload, name: str, *, calls: int) -> TimedCalls:
        """Return a batch of so many calls over the copies there are, one after the other, again and again."""
        order = [number % ground.sets for number in range(calls)]
        return self._capture(ground, name, order, timed=calls)

    def forget(self, ground: BoundWorkload, name: str) -> None:
        """Drop the batches of one baseline on a workload, those over buffers that were replaced, too."""
        stem = ground.name.rpartition(":")[0]
        for key in [key for key in self._batches if key[0].rpartition(":")[0] == stem and key[1] == name]:
            del self._batches[key]

    def _capture(self, ground: BoundWorkload, name: str, order: Sequence[int], *, timed: int) -> TimedCalls:
        with torch.no_grad():
            calls = [self._call(ground, name, number) for number in order]
            for _ in range(_WARM_CALLS):  # it may compile, or load modules, which cannot be captured
                calls[0]()
            torch.cuda.synchronize()
            begin = partial(self._prelude.queue, ground.memories)
            return TimedCalls(calls, timed=timed, begin=begin, stopwatch=self._stopwatch, scratch=self._scratch)

    def _call(self, ground: BoundWorkload, name: str, number: int) -> Call:
        function, (inputs, outputs) = self._functions[name], ground.call_arguments(number)

        def call() -> None:
            with torch.no_grad():
                function(inputs, outputs)

        return call
