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
    """What recorded candidates are run, compared and inspected with."""

    runners: RunnerPool
    """The runner in use, and the one in waiting."""
    baselines: DeviceBaselines
    """Baselines in the judge's own context."""
    verifiers: Verifiers
    """What compares outputs."""
    sandbox: Sandbox
    """What instruments run recorded calls in, where they work there."""
    cores: tuple[int, ...]
    """The cores that instruments run on."""
    multiprocessors: int
    """How many multiprocessors the GPU has."""

    @cached_property
    def profiler(self) -> Profiler:
        """What reads hardware counters of recorded calls; looked for when it is first needed."""
        return Profiler(ToolRunner(self.sandbox, cpus=self.cores), multiprocessors=self.multiprocessors)

    @cached_property
    def sanitizer(self) -> Sanitizer:
        """What looks for wrong accesses and races in recorded calls; looked for when it is first needed."""
        return Sanitizer(ToolRunner(self.sandbox, cpus=self.cores))
