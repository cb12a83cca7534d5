"""The bench of a processor: shared memory, C++ workers, the clock on cores of its own."""

import os
from pathlib import Path

from evokernel.evaluate.bench.baseline_timing import BaselineTimer
from evokernel.evaluate.bench.bench import Bench
from evokernel.evaluate.bench.workload import BoundWorkload
from evokernel.evaluate.device.cpu_roofline import device_name, floor_of, measure_device
from evokernel.evaluate.memory.arena import HostArena
from evokernel.evaluate.numerics.timed_inputs import FreshInputs
from evokernel.evaluate.sandbox.limits import WorkerLimits
from evokernel.evaluate.worker_mode.baseline_process import BaselineProcess
from evokernel.evaluate.worker_mode.cpu_pool import Worker, WorkerPool
from evokernel.evaluate.worker_mode.trampoline import build_trampoline
from evokernel.records.evaluation import Floor
from evokernel.task import DTYPES, Workload

_SETS_BYTES = 64 << 20
_BATCH_S, _FIRST_CALL_S = 0.003, 120.0
_MOST_CALLS = 512


class CpuBench(Bench):
    """Judges compiled C++ on the processor."""

    device_class = "cpu"
    timed_share = 1.0

    @property
    def device_name(self) -> str:
        """The processor's model."""
        return device_name()

    @property
    def hidden_shapes(self) -> list[dict[str, int | float]]:
        """Nothing: one compiled program serves all shapes."""
        return []

    def load(self, artifact: bytes, source: str) -> Worker:
        """Start a worker with a shared object in it. Raises as `WorkerPool.load`."""
        return self._pool.load(artifact, timeout_s=self.settings.timeout_s)

    def floor(self, workload: Workload) -> Floor:
        """Return the least time of peak arithmetic and memory; the sheet's peak is that of fp32 and wider."""
        narrow = any(DTYPES[tensor.dtype] < 4 for tensor in self.task.signature.tensors)
        flops = 0 if narrow else self.task.flops_at(workload)
        return floor_of(flops, self.task.bytes_at(workload), self.sheet)

    def quiet(self) -> str:
        """Say nothing: here the engine keeps its compilers from running beside a clock."""
        return ""

    def left_running(self) -> bool:
        """Say no: a stopped process does nothing here."""
        return False

    @property
    def baselines(self) -> BaselineTimer:
        """The baseline process."""
        return self._baselines

    def _begin(self, task: str) -> None:
        process = BaselineProcess(task, threads=self.threads, cpus=self.cores.runners)
        self._baselines = BaselineTimer(
            self._stack.enter_context(process), batch_s=_BATCH_S, first_call_s=_FIRST_CALL_S
        )

    def _open(self) -> None:
        trampoline = build_trampoline(self.task.signature, _cache_folder())
        limits = WorkerLimits(
            memory_bytes=self.settings.memory_mib << 20,
            cpu_s=int(self.settings.timeout_s * 30 * self.threads) + 1,
            threads=self.threads,
            cpus=self.cores.runners,
        )
        self._pool = self._stack.enter_context(WorkerPool(trampoline, sandbox=self.sandbox, limits=limits))

    def _measure(self) -> dict[str, float]:
        return measure_device(self.cores.runners)

    def _make_arena(self, workload: Workload, sets: int) -> HostArena:
        return HostArena.for_signature(self.task.signature, workload.sizes, sets=sets)

    def _load_expert(self, expert: str) -> None:
        self._baselines.process.hire(expert, trampoline=str(self._pool.trampoline.path))

    def _anchor(self, ground: BoundWorkload, fresh: FreshInputs) -> None:
        self._baselines.anchor(ground, fresh, panel=self.panel, most_calls=_MOST_CALLS, room_bytes=_SETS_BYTES)


def _cache_folder() -> Path:
    """Return where compiled trampolines are kept: small, few, and the same for every run."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "evokernel"
