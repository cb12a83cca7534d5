"""Detection of other programs on the GPU: no clock may run while another process has work queued there.

There are two sources. NVML lists the processes that hold a context, with their numbers; in a container these may be the
host's, and then the list is not usable. A probe measures the GPU itself: contexts take turns in slices of about 2 ms,
so a copy of some milliseconds that takes too long has waited for the slices of others. (A tiny kernel shows nothing: it
may fit into a slice of ours, and after a pause it takes 0.2 to 0.4 ms beside contexts that are idle.)
"""

import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import torch

from evokernel.evaluate.device import nvml

BUSY = 1.25
"""A probe slowed down by more than this met another process's work. On an H100, 2 % at most when idle, 1.48 and more
beside matrix products, 1.87 beside a single spinning block."""
_COPIES = 32
_GLANCE_COPIES = 8
_PROBE_BYTES = 256 << 20
_PAUSE_S = 0.2
_SM_CLOCK, _MEMORY_CLOCK = 1, 2  # nvmlClockType_t


@dataclass(frozen=True, slots=True)
class Clocks:
    """Current clocks of a GPU."""

    sm_mhz: int
    """Of the multiprocessors."""
    memory_mhz: int
    """Of device memory."""
    reasons: int
    """NVML's bits for why they are not higher (0x4 power, 0x60 heat)."""


def compute_processes(index: int) -> dict[int, int]:
    """Return the device memory in bytes of each process with a context on a GPU, by pid. Raises `NvmlError`."""
    found = nvml.ask("nvmlDeviceGetComputeRunningProcesses_v3", nvml.handle(index))
    return {process.pid: process.usedGpuMemory or 0 for process in found}


def clocks(index: int) -> Clocks:
    """Return the clocks of a GPU. Raises `NvmlError`."""
    device = nvml.handle(index)
    sm_mhz, memory_mhz = (nvml.ask("nvmlDeviceGetClockInfo", device, clock) for clock in (_SM_CLOCK, _MEMORY_CLOCK))
    return Clocks(sm_mhz, memory_mhz, nvml.ask("nvmlDeviceGetCurrentClocksThrottleReasons", device))


class Probe:
    """Copies some memory and compares the time with the least so far.

    To be used while this process has nothing queued. The long probe takes about 6 ms on an H100 and meets every
    neighbour. The short one takes 1.5 ms; it may fit into one slice of ours, and misses two neighbours of five.
    """

    def __init__(self) -> None:
        self._source = torch.zeros(_PROBE_BYTES, dtype=torch.uint8, device="cuda")
        self._target = torch.empty_like(self._source)
        self._least_ns = {copies: min(self._time_ns(copies) for _ in range(5)) for copies in (_COPIES, _GLANCE_COPIES)}

    def slowdown(self) -> float:
        """Return the time of a long probe as a multiple of the least so far."""
        return self._slowdown(_COPIES)

    def brief_slowdown(self) -> float:
        """Return the time of a short probe as a multiple of the least so far."""
        return self._slowdown(_GLANCE_COPIES)

    def _slowdown(self, copies: int) -> float:
        taken = self._time_ns(copies)
        self._least_ns[copies] = min(self._least_ns[copies], taken)
        return taken / self._least_ns[copies]

    def _time_ns(self, copies: int) -> int:
        self._target[:1].zero_()  # our turn begins here: switching contexts takes 0.3 ms, even from an idle one
        torch.cuda.synchronize()
        begin = time.perf_counter_ns()
        for _ in range(copies):
            self._target.copy_(self._source)
        torch.cuda.synchronize()
        return time.perf_counter_ns() - begin


class NeighbourWatch:
    """Detects others on the GPU that this process sees first. `ours` returns the pids of our processes."""

    def __init__(self, ours: Callable[[], set[int]]) -> None:
        self._ours = ours
        self._probe = Probe()
        self._undisturbed: deque[float] = deque(maxlen=8)
        self._gpu = nvml.visible_gpu()

    def foreign_processes(self) -> tuple[int, ...]:
        """Return the pids of processes on the GPU that are not ours; none where NVML's list is not usable.

        The list is usable when it has a process of ours, so ask while one of them has a context.
        """
        if self._gpu is None:
            return ()
        ours = self._ours() | {os.getpid()}
        try:
            listed = compute_processes(self._gpu.index)
        except nvml.NvmlError:
            return ()
        if not ours & listed.keys():  # numbers of another namespace, or no numbers at all
            return ()
        return tuple(sorted(listed.keys() - ours))

    def learn(self) -> None:
        """Record a short probe right after trusted work, without a candidate: a hot GPU is slower."""
        self._undisturbed.append(self._probe.brief_slowdown())

    def is_busy(self) -> bool:
        """Say whether another process has work on the GPU now: two short probes in a row are slow."""
        limit = BUSY * (median(self._undisturbed) if self._undisturbed else 1.0)
        return self._probe.brief_slowdown() > limit and self._probe.brief_slowdown() > limit

    def wait_until_quiet(self, timeout_s: float) -> str | None:
        """Wait while others have work on the GPU; return None, or at the limit a note to stand beside a number.

        A process that holds memory but runs nothing does not disturb, and is not waited for.
        """
        deadline = time.monotonic() + timeout_s
        while (slowdown := self._probe.slowdown()) > BUSY:
            if time.monotonic() >= deadline:
                return self._note(slowdown)
            time.sleep(_PAUSE_S)
        return None

    def conditions(self) -> dict[str, float]:
        """Return the clocks and the number of other processes on the GPU, as metrics; nothing without NVML."""
        if self._gpu is None:
            return {}
        try:
            now = clocks(self._gpu.index)
        except nvml.NvmlError:
            return {}
        return {
            "sm_mhz": float(now.sm_mhz),
            "memory_mhz": float(now.memory_mhz),
            "throttle_reasons": float(now.reasons),
            "other_processes": float(len(self.foreign_processes())),
        }

    def _note(self, slowdown: float) -> str:
        who = ", ".join(map(str, self.foreign_processes()))
        others = f"processes {who}" if who else "another process"
        return f"the GPU is shared with {others}: a copy took {slowdown:.1f} times as long as it should"
