"""Tools of artifact mode: runners, baselines on the device, verifiers, and instruments for recorded calls."""

from dataclasses import dataclass
from functools import cached_property

from evokernel.evaluate.artifact_mode.baselines import DeviceBaselines
from evokernel.evaluate.artifact_mode.runner_pool import RunnerPool
from evokernel.evaluate.artifact_mode.verifier import Verifiers
from evokernel.evaluate.instruments.profiler import Profiler
from evokernel.evaluate.instruments.sanitizer import Sanitizer
from evokernel.evaluate.instruments.tool_run import ToolRunner
from evokernel.evaluate.sandbox.levels import Sandbox


@dataclass(frozen=True)
class ArtifactTools:
    """Tools that run, compare and inspect recorded candidates."""

    runners: RunnerPool
    """The runner in use, and its standby."""
    baselines: DeviceBaselines
    """Baselines in the judge's own context."""
    verifiers: Verifiers
    """Comparison of outputs, by workload."""
    sandbox: Sandbox
    """Confinement of instruments, where they work in it."""
    cores: tuple[int, ...]
    """The cores that instruments run on."""
    multiprocessors: int
    """Multiprocessors of the GPU."""

    @cached_property
    def profiler(self) -> Profiler:
        """The reader of hardware counters of recorded calls; looked up at the first use."""
        return Profiler(ToolRunner(self.sandbox, cpus=self.cores), multiprocessors=self.multiprocessors)

    @cached_property
    def sanitizer(self) -> Sanitizer:
        """The check for wrong accesses and races in recorded calls; looked up at the first use."""
        return Sanitizer(ToolRunner(self.sandbox, cpus=self.cores))
