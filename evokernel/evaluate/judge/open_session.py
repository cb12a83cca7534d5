"""How a candidate is run on a bench: recorded kernels in the runner, everything else in a worker of its own."""

from evokernel.evaluate.bench.bench import Bench
from evokernel.evaluate.bench.candidate_session import CandidateSession, WorkerSession


def open_session(bench: Bench, artifact: bytes, source: str) -> CandidateSession:
    """Begin the judgement of one candidate. Raises `WorkerError` where it cannot be loaded, `HarnessError`."""
    if bench.device_class == "cpu":
        return WorkerSession(bench, artifact, source)
    from evokernel.evaluate.judge.gpu_session import open_on_gpu

    return open_on_gpu(bench, artifact, source)
