"""What became of a candidate, in words for its author: how failures of its process and broken bounds are told."""

from evokernel.errors import HarnessError, KernelFault, KilledFromOutside, WorkerDied, WorkerError, WorkerTimeout
from evokernel.evaluate.bench.workload import BoundWorkload
from evokernel.evaluate.wire import PhaseVerdict
from evokernel.evaluate.worker_mode.cpu_pool import LoadFailed
from evokernel.records.evaluation import Stage, Status

NEUTRAL = "outputs must be computed from the given inputs in each call"
"""All that is told of how a cheat was found out."""
_NO_MEMORY = ("bad_alloc", "MemoryError")
"""What a process says that got no memory: a candidate's C++, and the loop around it for buffers that find no room."""
_USUAL = ("SIGSEGV", "SIGBUS", "SIGABRT", "SIGFPE", "SIGILL", "SIGSYS")


def failure(error: WorkerError, stage: Stage, where: str, *, hidden: bool = False) -> PhaseVerdict:
    """Return the verdict on a candidate whose worker failed. `where` says on what, for its author.

    On a `hidden` shape nothing is passed on that the candidate has worded: it could tell the shape.

    Raises:
        HarnessError: it was nothing the candidate did.
    """
    if isinstance(error, KilledFromOutside):
        raise HarnessError(f"{where}: {error}; somebody killed it, or the machine ran out of memory") from error
    text = _told_on_hidden_shape(error) if hidden else str(error)
    match error:
        case KernelFault():
            return _fault(error, text, stage, where, line=None if hidden else error.line)
        case LoadFailed():
            return PhaseVerdict(Status.LOAD_ERROR, stage, f"the compiled kernel could not be loaded: {text}")
        case WorkerTimeout():
            return PhaseVerdict(Status.TIMEOUT, stage, f"{where}: {text}")
        case WorkerDied() if any(words in str(error) for words in _NO_MEMORY):
            return PhaseVerdict(Status.OUT_OF_MEMORY, stage, f"{where}: memory could not be allocated; {text}")
    hint = ""
    if "SIGSEGV" in text or "SIGBUS" in text:
        hint = " (it touched memory outside its arguments, or wrote to an input: inputs are read-only)"
    if "SIGSYS" in text:
        hint = " (it made a system call that kernels may not make)"
    return PhaseVerdict(Status.WORKER_DIED, stage, f"{where}: {text}{hint}")


def _told_on_hidden_shape(error: WorkerError) -> str:
    """Return what may be told: a usual signal; messages, exit codes and lines are the candidate's to choose."""
    if isinstance(error, WorkerTimeout):
        return str(error)
    return next((f"killed by {name}" for name in _USUAL if name in str(error)), "its process ended")


def _fault(error: KernelFault, text: str, stage: Stage, where: str, *, line: int | None) -> PhaseVerdict:
    """Return the verdict on what a candidate did inside its worker, in the worker's words."""
    at = f" (line {line})" if line is not None else ""
    match error.kind:
        case "memory":
            return PhaseVerdict(
                Status.OUT_OF_MEMORY, stage, f"{where}: no device memory for what run() allocates: {text}"
            )
        case "device":
            hint = "it touched memory outside its arguments, or wrote to an input (inputs are read-only), or asserted"
            return PhaseVerdict(Status.DEVICE_FAULT, stage, f"{where}: a kernel failed on the GPU: {text}; {hint}")
    return PhaseVerdict(Status.HOST_EXCEPTION, stage, f"{where}: the host code raised{at} {text}".rstrip())


def out_of_bounds(ground: BoundWorkload, stage: Stage) -> PhaseVerdict | None:
    """Return the verdict where a guard bar was changed, after putting new ones up for the next candidate."""
    names = ground.broken_guards()
    if not names:
        return None
    ground.resize(ground.sets)
    text = f"on {ground.label}: wrote beyond the bounds of {', '.join(names)}"
    return PhaseVerdict(Status.OUT_OF_BOUNDS, stage, text)
