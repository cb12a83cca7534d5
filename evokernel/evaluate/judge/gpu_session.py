"""Choice of a candidate's mode on a GPU."""

from evokernel.errors import HarnessError
from evokernel.evaluate.artifact_mode.checked_build import Target, read_artifact
from evokernel.evaluate.artifact_mode.plan import PlanLimits
from evokernel.evaluate.artifact_mode.session import ArtifactSession, shape_numbers
from evokernel.evaluate.artifact_mode.tools import ArtifactTools
from evokernel.evaluate.bench.bench import Bench
from evokernel.evaluate.bench.candidate_session import CandidateSession, WorkerSession
from evokernel.evaluate.device.nvml import visible_gpu

_SCRATCH_LIMIT_BYTES = 4 << 30
# Not the build's own reason: the candidate's code ran there and could reveal hidden shapes.
_UNRECORDABLE = (
    "run in a worker, for what run() does cannot be recorded: a zero_, fill_ or copy_ on memory that is not "
    "contiguous, between dtypes, or with a number that is not the same in every 4 bytes"
)


def open_on_gpu(bench: Bench, tools: ArtifactTools, artifact: bytes, source: str) -> CandidateSession:
    """Open a candidate in the runner, or in a worker where it could not be recorded.

    Raises `WorkerError` where it cannot be loaded, `HarnessError`.
    """
    gpu = visible_gpu()
    if gpu is None:
        raise HarnessError("a GPU that was there is gone")
    numbers = shape_numbers(bench.workloads)
    workloads = [bound.workload for bound in sorted(numbers, key=lambda bound: numbers[bound])]
    limits = PlanLimits(shared_bytes=gpu.shared_bytes, scratch_bytes=_SCRATCH_LIMIT_BYTES)
    checked = read_artifact(artifact, bench.task, workloads=workloads, target=Target(gpu.capability, limits))
    if checked.plans.unrecordable:
        return WorkerSession(bench, artifact, source, note=_UNRECORDABLE)
    return ArtifactSession(bench, tools, checked)
