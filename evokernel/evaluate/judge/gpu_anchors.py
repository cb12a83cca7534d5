"""Times of baselines on a GPU, and batch sizes from them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from evokernel.evaluate.artifact_mode.baselines import DeviceBaselines
from evokernel.evaluate.bench.groundwork import pin_to
from evokernel.evaluate.bench.workload import BoundWorkload
from evokernel.evaluate.device.cores import Cores
from evokernel.evaluate.device.gpu_conditions import NeighbourWatch
from evokernel.evaluate.judge.gpu_workers import GpuWorkers
from evokernel.evaluate.numerics.arrays import synchronize
from evokernel.evaluate.numerics.timed_inputs import FreshInputs
from evokernel.evaluate.worker_mode.expert_loop import EXPERT, python_baseline
from evokernel.task import Signature

_BATCH_NS, _FINAL_BATCH_NS = 0.8e6, 2.4e6
_TRIAL_CALLS, _TRIAL_NS = 16, 1e8
_TRIALS = 3
_LEAST_CALLS, _MOST_CALLS, _MOST_FINAL_CALLS = 4, 64, 192
_OVER_CACHE = 2
"""A batch touches this many times the second-level cache, so that no call finds its inputs there."""


@dataclass(frozen=True, slots=True)
class Room:
    """Bounds of the batches of one workload."""

    size_bytes: int
    """Device memory for all copies of its buffers."""
    cache_bytes: int
    """Size of the second-level cache."""
    least_sets: int
    """Least number of copies of its buffers."""
    final: bool
    """Whether a winner is measured, in longer batches."""

    def calls(self, set_bytes: int, call_ns: float) -> int:
        """Return how many calls a batch has, given the bytes of one set and the ns of one call."""
        batch_ns, most = (_FINAL_BATCH_NS, _MOST_FINAL_CALLS) if self.final else (_BATCH_NS, _MOST_CALLS)
        wanted = max(batch_ns / call_ns, _OVER_CACHE * self.cache_bytes / set_bytes, _LEAST_CALLS)
        room = self.size_bytes // set_bytes
        while room > 2 and room + spares(room) > self.size_bytes // set_bytes:
            room -= 1
        return max(1, min(round(wanted), most, room))


class DeviceAnchors:
    """Times baselines in the judge's own context; see `BaselineAnchors`.

    Args:
        baselines: on the buffers of the judge's workloads.
        workers: must load a user's kernel, too.
        watch: records probes after trusted work.
    """

    def __init__(
        self,
        baselines: DeviceBaselines,
        workers: GpuWorkers,
        watch: NeighbourWatch,
        *,
        cores: Cores,
        room: Room,
        signature: Signature,
    ) -> None:
        self._baselines = baselines
        self._workers = workers
        self._watch = watch
        self._cores = cores
        self._room = room
        self._signature = signature

    def load_expert(self, expert: str) -> None:
        """Load a user's kernel from a Python file."""
        self._workers.load_expert(expert)
        self._baselines.add(EXPERT, python_baseline(expert, self._signature))

    def anchor(
        self,
        workloads: Sequence[BoundWorkload],
        fresh_inputs: Callable[[BoundWorkload], FreshInputs],
        *,
        panel: Sequence[str],
    ) -> None:
        """Time the baselines, which may compile on all cores: times are the device's own, and no other clock runs."""
        pin_to(self._cores.untimed)
        for bound in workloads:
            self._anchor(bound, fresh_inputs(bound), panel)
        pin_to(self._cores.judge)

    def _anchor(self, bound: BoundWorkload, fresh: FreshInputs, panel: Sequence[str]) -> None:
        """Time the baselines, and allocate as many copies of the buffers as a batch has calls, and spare ones.

        To a kernel a spare copy looks like the others, and must stay unchanged.
        """
        _fill(bound, fresh)
        first_ns = min(self._least_ns(bound, name, calls=1) for name in panel)
        if first_ns * _TRIAL_CALLS < _TRIAL_NS:
            first_ns = min(self._least_ns(bound, name, calls=_TRIAL_CALLS) for name in panel)
        bound.calls = self._room.calls(bound.set_bytes, first_ns)
        bound.resize(max(self._room.least_sets, bound.calls + spares(bound.calls)))
        _fill(bound, fresh)
        bound.baseline_us = {name: self._least_ns(bound, name, calls=bound.calls) / 1e3 for name in panel}
        torch.cuda.empty_cache()

    def _least_ns(self, bound: BoundWorkload, name: str, *, calls: int) -> float:
        """Return the least time of one call in ns, since a busy machine only makes it longer."""
        batch, times = self._baselines.trial(bound, name, calls=calls), []
        for _ in range(_TRIALS):
            times.append(batch.run_ns() / calls)
            self._watch.learn()  # a probe of the GPU right after trusted work
        return min(times)


def spares(calls: int) -> int:
    """Return the number of buffer copies beside those of a batch's calls."""
    return max(2, calls // 4)


def _fill(bound: BoundWorkload, fresh: FreshInputs) -> None:
    fresh.fill_sets(bound.all_inputs(), fresh.draw_windows(bound.sets))
    bound.poison_all(bound.sets)
    synchronize(bound.device)
