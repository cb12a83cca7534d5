"""Runs a kernel over the sets of an arena on the GPU: one call directly, or many as one captured graph.

A graph takes the host's launch cost out of the measurement: a Python launch costs 10 to 40 us, which would hide the
time of a short kernel. The capture is ours, on a stream of ours. A kernel launched elsewhere is not in the graph, so
its outputs do not change, and the comparison finds that.
"""

from collections.abc import Callable, Sequence
from typing import Any

Call = Callable[[], object]


class Batches:
    """Makes batches of calls and keeps the graphs. `call` runs one set; `captured` says whether graphs work for it."""

    def __init__(self, call: Callable[[Any], object]) -> None:
        import torch

        # Read before a candidate is imported, so that its changes to torch's modules have no effect here.
        self._capturing, self._graph = torch.cuda.graph, torch.cuda.CUDAGraph
        self._wait: Callable[[], None] = torch._C._cuda_synchronize
        self._call = call
        self._graphs: dict[tuple[str, int, int], Call] = {}
        self.captured = True
        self.reason = ""

    def warm(self, one_set: Any) -> None:
        """Run one call to the end: it loads modules, which a capture must not do."""
        self._call(one_set)
        self._wait()

    def prepare(self, name: str, sets: Sequence[Any], *, first: int, calls: int) -> Call:
        """Return a function that runs `calls` calls on consecutive sets; fewer than two are not captured."""
        chosen = [sets[(first + index) % len(sets)] for index in range(calls)]
        if calls < 2 or not self.captured:
            return lambda: self._each(chosen)
        key = (name, first, calls)
        if key not in self._graphs:
            graph = self._capture(chosen)
            if graph is None:
                return lambda: self._each(chosen)
            self._graphs[key] = graph
        return self._graphs[key]

    def finish(self) -> None:
        """Wait for the device. Raises the kernels' errors."""
        self._wait()

    def forget(self, name: str) -> None:
        """Drop the graphs over a removed arena; the device must be idle."""
        self._graphs = {key: graph for key, graph in self._graphs.items() if key[0] != name}

    def _each(self, chosen: Sequence[Any]) -> None:
        for one_set in chosen:
            self._call(one_set)

    def _capture(self, chosen: Sequence[Any]) -> Call | None:
        graph = self._graph()
        try:
            with self._capturing(graph):
                self._each(chosen)
            graph.replay()  # the first replay uploads the graph
            self._wait()
        except Exception as error:  # noqa: BLE001  host code that waits for the device cannot be captured
            self.captured = False
            self.reason = f"{type(error).__name__}: {error}"[:500]
            self._wait()  # a broken context shows here, and is the kernel's fault
            return None
        replay: Call = graph.replay
        return replay
