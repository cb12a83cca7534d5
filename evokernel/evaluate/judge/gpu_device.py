"""A GPU as a device of a bench: its sheet, its neighbours, and its idle times."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import cached_property
from typing import ClassVar

from evokernel.evaluate.artifact_mode.runner_pool import RunnerPool
from evokernel.evaluate.device import gpu_roofline
from evokernel.evaluate.device.lock import this_device_lease
from evokernel.evaluate.device.neighbours import NeighbourWatch
from evokernel.evaluate.judge.gpu_workers import GpuWorkers
from evokernel.evaluate.numerics.arrays import is_float
from evokernel.records.timing import Floor
from evokernel.task import DTYPES, Task, Workload

_QUIET_TIMEOUT_S = 120.0


class Gpu:
    """The GPU that this process sees first; see `BenchDevice`.

    `runners` and `workers` hold standby processes that must be ready before a clock runs; `watch` detects other
    programs.
    """

    device_class: ClassVar[str] = "cuda"
    timed_share: ClassVar[float] = 0.125
    compiles_for_shapes: ClassVar[bool] = True

    def __init__(self, runners: RunnerPool, workers: GpuWorkers, watch: NeighbourWatch) -> None:
        self._runners = runners
        self._workers = workers
        self._watch = watch

    @cached_property
    def name(self) -> str:
        """The GPU's model."""
        return gpu_roofline.device_name()

    def measure(self) -> dict[str, float]:
        """Return the device sheet."""
        return gpu_roofline.measure_device()

    def floor(self, task: Task, workload: Workload, sheet: Mapping[str, float]) -> Floor:
        """Return the least time of arithmetic in the task's narrowest floating-point dtype, if any, and of memory."""
        floats = [tensor.dtype for tensor in task.signature.tensors if is_float(tensor.dtype)]
        dtype = min(floats, key=lambda name: DTYPES[name], default="")
        flops, moved = task.flops_at(workload), task.bytes_at(workload)
        return gpu_roofline.floor_of(flops, moved, dtype, sheet, allow_tf32=task.precision.allow_tf32)

    def quiet(self) -> str:
        """Wait for the standby process and for other programs to leave the GPU; name those that stay."""
        self._runners.wait_ready()
        self._workers.wait_ready()
        return self._watch.wait_until_quiet(_QUIET_TIMEOUT_S) or ""

    def lease(self) -> AbstractContextManager[object]:
        """Wait until no other judge of this machine uses the GPU. Raises `HarnessError` naming the one that does."""
        return this_device_lease()

    def left_running(self) -> bool:
        """Say whether kernels of a stopped process, or of another program, still run."""
        return self._watch.is_busy()

    def conditions(self) -> dict[str, float]:
        """Return clocks and neighbours: recorded beside a measurement, never used to discard it."""
        return self._watch.conditions()
