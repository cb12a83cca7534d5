"""Parts of a bench that depend on the device class: the device, the host of workers, the baselines' anchors."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from evokernel.evaluate.bench.baseline_timing import BaselineTimer
from evokernel.evaluate.bench.floor_work import Work
from evokernel.evaluate.bench.workload import BoundWorkload
from evokernel.evaluate.numerics.timed_inputs import FreshInputs
from evokernel.evaluate.sandbox.forked import ForkedRunner
from evokernel.records.timing import Floor
from evokernel.task import Task


class BenchDevice(Protocol):
    """The device that candidates run on."""

    @property
    def device_class(self) -> str:
        """`cpu` or `cuda`."""

    @property
    def name(self) -> str:
        """The device's model."""

    @property
    def timed_share(self) -> float:
        """The share of every timed output that is compared."""

    @property
    def compiles_for_shapes(self) -> bool:
        """Say whether kernels are compiled for the shapes that they are called with."""

    @property
    def case_bytes(self) -> int:
        """The memory that inputs and expected values of checks may take together, kept from check to check."""

    def measure(self) -> dict[str, float]:
        """Return the device sheet."""

    def floor(self, task: Task, work: Work, sheet: Mapping[str, float]) -> Floor:
        """Return the least time the device could need for some work of a task."""

    def quiet(self) -> str:
        """Wait until no other program uses the device; return the disturbance that remains, or nothing."""

    def lease(self) -> AbstractContextManager[object]:
        """Return a context that keeps other judges off the device; on a processor it does nothing."""

    def left_running(self) -> bool:
        """Say whether a stopped process still has work on the device, which its batch must not leave behind."""

    def pause(self, seconds: float) -> bool:
        """Leave the device alone for so long; say whether another program used it meanwhile, or may do so."""

    def conditions(self) -> dict[str, float]:
        """Return metrics of the device's state, to be recorded beside a measurement."""


class WorkerHost(Protocol):
    """Runs candidates in workers, and the baselines beside them."""

    @property
    def baselines(self) -> BaselineTimer:
        """Baselines as worker mode runs them."""

    def load(self, artifact: bytes, source: str) -> ForkedRunner:
        """Start a worker with a candidate in it. Raises `WorkerError` where the candidate cannot be loaded.

        `artifact` comes from a process that ran the candidate's own code, `source` does not.
        """


class BaselineAnchors(Protocol):
    """Times the baselines that candidates are compared with."""

    def load_expert(self, expert: str) -> None:
        """Make a user's kernel usable as the baseline `EXPERT`; `expert` is the file to load it from."""

    def anchor(
        self,
        workloads: Sequence[BoundWorkload],
        fresh_inputs: Callable[[BoundWorkload], FreshInputs],
        *,
        panel: Sequence[str],
    ) -> None:
        """Time the baselines on each workload, choose its batch size, and allocate copies for a batch."""
