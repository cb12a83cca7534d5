"""The bench of a GPU: device memory shared by descriptor, Python workers, the clock in this process."""

import os
from collections.abc import Iterable
from functools import cached_property

import torch

from evokernel.evaluate.arrays import is_float
from evokernel.evaluate.baseline import BaselineProcess
from evokernel.evaluate.bench import Bench
from evokernel.evaluate.cuda import sheet
from evokernel.evaluate.cuda.arena import DeviceArena
from evokernel.evaluate.cuda.session import CudaWorker, CudaWorkerPool
from evokernel.evaluate.cuda.watch import Watch
from evokernel.task import DTYPES, Workload

# The rest is for the contexts of three processes, the judge's copies of outputs, and the arena that replaces a broken
# one while the baseline process still maps the old.
_SHARE_OF_FREE_MEMORY = 0.33
_QUIET_TIMEOUT_S = 120.0


class CudaBench(Bench):
    """Judges Python modules with GPU kernels on the GPU that this process sees first."""

    device_class = "cuda"
    batch_s = 0.005
    most_calls = 2048
    trial_calls = 32
    timed_share = 0.125
    first_call_s = 180.0

    @cached_property
    def device_name(self) -> str:
        """The GPU's model."""
        return sheet.device_name()

    def load(self, artifact: bytes, source: str) -> CudaWorker:
        """Hand a bundle to the worker in waiting, with the source itself in it. Raises as `CudaWorkerPool.load`."""
        return self._pool.load(artifact, source, timeout_s=self.settings.timeout_s)

    def floor_us(self, workload: Workload) -> float:
        """Return the least time of arithmetic in the task's narrowest floating-point dtype, if any, and of memory."""
        precision = self.task.precision
        floats = [tensor.dtype for tensor in self.task.signature.tensors if is_float(tensor.dtype)]
        dtype = min(floats, key=lambda name: DTYPES[name], default="")
        flops, moved = self.task.flops_at(workload), self.task.bytes_at(workload)
        return sheet.floor_us(flops, moved, dtype, self.sheet, allow_tf32=precision.allow_tf32)

    def quiet(self) -> str:
        """Wait for the worker in waiting to be up and for other programs to leave the GPU; name who stays."""
        self._pool.settle()
        return self._watch.wait_until_quiet(_QUIET_TIMEOUT_S) or ""

    def left_running(self) -> bool:
        """Say whether kernels of a stopped process, or of anybody else, still run."""
        return self._watch.is_busy()

    def look_at_idle(self) -> None:
        """Learn what the device is like after a baseline's batch."""
        self._watch.learn()

    def conditions(self) -> dict[str, float]:
        """Return clocks and neighbours: recorded beside a measurement, never used to discard it."""
        return self._watch.conditions()

    def _start_baseline(self, task: str) -> BaselineProcess:
        return BaselineProcess(task, device="cuda", threads=1, cpus=self.cores.runners, spin=self.cores.apart)

    def _setup_cores(self) -> Iterable[int]:
        return {*self.cores.judge, *self.cores.runners, *self.cores.compilers}

    def _open(self) -> None:
        pool = CudaWorkerPool(self.task.signature, sandbox=self.sandbox, cpus=self.cores.runners, spin=self.cores.apart)
        self._pool = self._stack.enter_context(pool)

    def _ready(self) -> None:
        self._watch = Watch(self._ours)
        workloads = self.task.workloads[self.device_class]
        timed = len(workloads.search) + (len(workloads.holdout) if self.final else 0)
        self._room = int(torch.cuda.mem_get_info()[0] * _SHARE_OF_FREE_MEMORY / timed)

    def _measure(self) -> dict[str, float]:
        return sheet.measure_device()

    def _make_arena(self, workload: Workload, sets: int) -> DeviceArena:
        return DeviceArena.for_signature(self.task.signature, workload.sizes, sets=sets)

    def _room_bytes(self) -> int:
        return self._room

    def _ours(self) -> set[int]:
        return {os.getpid(), self.baseline.pid, *self._pool.pids()}
