"""Feedback to a candidate's author on failures of its process and on broken bounds."""

from evokernel.errors import HarnessError, KernelFault, KilledFromOutside, WorkerDied, WorkerError, WorkerTimeout
from evokernel.evaluate.bench.workload import BoundWorkload
from evokernel.evaluate.wire import PhaseVerdict
from evokernel.evaluate.worker_mode.cpu_pool import LoadFailed
from evokernel.languages.cpp.guide import C_TYPES, entry_signature
from evokernel.languages.cpp.static_check import entry_parameters
from evokernel.records.evaluation import Stage, Status
from evokernel.task import Scalar, Signature, Tensor

NEUTRAL = "outputs must be computed from the given inputs in each call"
"""The whole feedback on a suspected cheat; it hides how the cheat was found."""
_NO_MEMORY = ("bad_alloc", "MemoryError")
"""Words of a process without memory: from a candidate's C++, and from the loop around it for its buffers."""
_FLOATING = {"float", "double", "_Float16"}
_WHOLE = {"char", "short", "int", "long", "signed", "unsigned", "size_t"}
"""Words of other types that are numbers."""
_USUAL = ("SIGSEGV", "SIGBUS", "SIGABRT", "SIGFPE", "SIGILL", "SIGSYS")


def failure(error: WorkerError, stage: Stage, where: str, *, hidden: bool = False) -> PhaseVerdict:
    """Return the verdict on a candidate whose worker failed. `where` names the workload for its author.

    On a `hidden` shape no text of the candidate is passed on, since it could tell the shape. Raises `HarnessError` if
    the candidate did not cause the failure.
    """
    if isinstance(error, KilledFromOutside):
        raise HarnessError(f"{where}: {error}; somebody killed it, or the machine ran out of memory") from error
    text = _allowed_on_hidden_shape(error) if hidden else str(error)
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
        hint = (
            " (it touched memory outside its arguments, or wrote to an input: inputs are read-only; or a thread of it "
            "still wrote when run had returned)"
        )
    if "SIGSYS" in text:
        hint = " (it made a system call that kernels may not make)"
    return PhaseVerdict(Status.WORKER_DIED, stage, f"{where}: {text}{hint}")


def other_arguments(source: str, signature: Signature) -> str:
    """Return what to say of a C++ kernel that takes other arguments than the task's, or an empty text.

    Compared are their number, which are pointers, and which are floating: other types have many names. Nothing is
    refused for it: a call that does not fit fails by itself, in any way.
    """
    runs, expected = entry_parameters(source), signature.arguments
    if not runs or any(len(each) == len(expected) and all(map(_fits, each, expected)) for each in runs):
        return ""
    return (
        f"its run({', '.join(runs[-1])}) does not take the arguments of this task, which calls\n"
        f"{entry_signature(signature)}\nIs it a kernel of another task?"
    )


def _fits(parameter: str, argument: Tensor | Scalar) -> bool:
    """Say whether a C++ parameter can take an argument; one whose type has a name of its own may."""
    words, points = {*parameter.replace("*", " ").split()}, "*" in parameter or "[" in parameter
    named = words.intersection(C_TYPES.values())
    if not points and not named and not words & _WHOLE:
        return True
    floating = not named or named & _FLOATING == _FLOATING & {C_TYPES.get(argument.dtype)}
    return floating and points == isinstance(argument, Tensor)


def _allowed_on_hidden_shape(error: WorkerError) -> str:
    """Return a usual signal, or nothing: the candidate chooses messages, exit codes and lines."""
    if isinstance(error, WorkerTimeout):
        return str(error)
    return next((f"killed by {name}" for name in _USUAL if name in str(error)), "its process ended")


def _fault(error: KernelFault, text: str, stage: Stage, where: str, *, line: int | None) -> PhaseVerdict:
    """Return the verdict on a fault inside a candidate's worker, in the worker's words."""
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


def out_of_bounds(bound: BoundWorkload, stage: Stage) -> PhaseVerdict | None:
    """Return the verdict where a guard bar was changed, after renewing the bars for the next candidate."""
    names = bound.broken_guards()
    if not names:
        return None
    bound.resize(bound.sets)
    text = f"on {bound.label}: wrote beyond the bounds of {', '.join(names)}"
    return PhaseVerdict(Status.OUT_OF_BOUNDS, stage, text)
