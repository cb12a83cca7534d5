"""The checks of the cascade, cheapest first: smoke, correctness everywhere, sanitizers."""

import tempfile
import time
from pathlib import Path

from evokernel.errors import HarnessError, KernelFault, WorkerDied, WorkerError, WorkerTimeout
from evokernel.evaluate.arrays import Array, identical, raw_bytes
from evokernel.evaluate.bench import Bench
from evokernel.evaluate.confined import Completed, Limits, Paths, run_confined
from evokernel.evaluate.correctness import judge_output
from evokernel.evaluate.ground import Ground, Kind
from evokernel.evaluate.hosted import WROTE
from evokernel.evaluate.inputs import result_tensors
from evokernel.evaluate.session import LoadFailed
from evokernel.evaluate.wire import HELD_OUT, Outcome
from evokernel.evaluation import Stage, Status
from evokernel.languages.checked_job import EXIT_BAD_JOB, EXIT_FOUND, pack_job, read_sanitizer_report

NEUTRAL = "outputs must be computed from the given inputs in each call"
_SANITIZED_PROBES = 3
_SLOW_S = 0.05
_HOPELESS = 10.0
_HOPELESS_CHECKS = 2
_CHECKS_PER_TIMEOUT = 3.0


class Session:
    """One candidate under judgement: its worker, and which buffers that worker has mapped.

    `call_s` is how long its quickest checked call took, by workload.
    """

    def __init__(self, bench: Bench, artifact: bytes, source: str) -> None:
        self.bench = bench
        self.worker = bench.load(artifact, source)
        self.call_s: dict[Ground, float] = {}
        self._known: set[str] = set()

    def attach(self, ground: Ground) -> None:
        """Let the worker map a workload's buffers. Raises `WorkerError`."""
        ground.attach(self.worker, self._known)

    def close(self) -> None:
        """End the worker and all it started."""
        self.worker.close()


def check(session: Session, executable: bytes | None) -> Outcome:
    """Return the first thing wrong with a candidate, or an outcome without status. Seconds by stage in `metrics`."""
    bench, began = session.bench, time.monotonic()
    smoke = bench.probes[min(1, len(bench.probes) - 1)]
    found = _try(session, smoke, bench.task.distributions[:1], Stage.SMOKE)
    deadline = began + _CHECKS_PER_TIMEOUT * bench.settings.timeout_s
    for ground in bench.grounds:
        found = found or _try(session, ground, bench.task.distributions, Stage.CORRECTNESS)
        if not found and time.monotonic() > deadline:
            text = f"the checks took more than {deadline - began:g} s in all; the kernel is far too slow"
            found = Outcome(Status.TIMEOUT, Stage.CORRECTNESS, text)
    checked = time.monotonic()
    sanitized = False
    if found is None and executable is not None:
        found, sanitized = sanitize(bench, executable)
    metrics = {"check_s": checked - began, "sanitizer_s": time.monotonic() - checked, "sanitized": float(sanitized)}
    found = found or Outcome(None, Stage.CORRECTNESS)
    return Outcome(found.status, found.stage, found.feedback, metrics=metrics)


def failure(error: WorkerError, stage: Stage, where: str, *, hidden: bool = False) -> Outcome:
    """Return the verdict on a candidate whose worker failed. `where` says on what, for its author.

    On a `hidden` shape nothing is passed on that the candidate has worded: it could tell the shape.
    """
    text = _own_words_left_out(error) if hidden else str(error)
    match error:
        case KernelFault():
            return _fault(error, text, stage, where)
        case LoadFailed():
            return Outcome(Status.LOAD_ERROR, stage, f"the compiled kernel could not be loaded: {text}")
        case WorkerTimeout():
            return Outcome(Status.TIMEOUT, stage, f"{where}: {text}")
        case WorkerDied() if "bad_alloc" in text:
            return Outcome(Status.OUT_OF_MEMORY, stage, f"{where}: memory could not be allocated; {text}")
    hint = ""
    if "SIGSEGV" in text or "SIGBUS" in text:
        hint = " (it touched memory outside its arguments, or wrote to an input: inputs are read-only)"
    if "SIGSYS" in text:
        hint = " (it made a system call that kernels may not make)"
    return Outcome(Status.WORKER_DIED, stage, f"{where}: {text}{hint}")


def _own_words_left_out(error: WorkerError) -> str:
    text = str(error)
    return text.partition(":")[0] if isinstance(error, KernelFault) else text.partition(WROTE)[0]


def _fault(error: KernelFault, text: str, stage: Stage, where: str) -> Outcome:
    """Return the verdict on what a candidate did inside its worker, in the worker's words."""
    line = f" (line {error.line})" if error.line is not None else ""
    match error.kind:
        case "memory":
            return Outcome(Status.OUT_OF_MEMORY, stage, f"{where}: no device memory for what run() allocates: {text}")
        case "device":
            hint = "it touched memory outside its arguments, or wrote to an input (inputs are read-only), or asserted"
            return Outcome(Status.DEVICE_FAULT, stage, f"{where}: a kernel failed on the GPU: {text}; {hint}")
    return Outcome(Status.HOST_EXCEPTION, stage, f"{where}: the host code raised{line} {text}")


def out_of_bounds(ground: Ground, stage: Stage) -> Outcome | None:
    """Return the verdict where a guard bar was changed, after putting new ones up for the next candidate."""
    names = ground.broken_guards()
    if not names:
        return None
    ground.resize(ground.sets)
    text = f"on {ground.label}: wrote beyond the bounds of {', '.join(names)}"
    return Outcome(Status.OUT_OF_BOUNDS, stage, text)


def _try(session: Session, ground: Ground, distributions: tuple[str, ...], stage: Stage) -> Outcome | None:
    try:
        found = _compare(session, ground, distributions, stage)
    except WorkerError as error:
        found = failure(error, stage, f"on {ground.label}", hidden=ground.hidden)
    found = out_of_bounds(ground, stage) or found
    if found is not None and ground.kind is Kind.HOLDOUT:
        return Outcome(Status.HOLDOUT_FAILED, stage, HELD_OUT)
    return found


def _compare(session: Session, ground: Ground, distributions: tuple[str, ...], stage: Stage) -> Outcome | None:
    ground.wipe(min(2, ground.sets))  # an earlier candidate's answers to the same inputs lie there
    session.attach(ground)
    hopeless, first = False, list[Array]()
    for distribution in distributions:
        if hopeless and distribution not in distributions[:_HOPELESS_CHECKS]:
            break
        seconds = _call(session, ground, distribution, 0)
        session.call_s[ground] = min(seconds, session.call_s.get(ground, seconds))
        hopeless = _is_hopeless(ground, session.call_s[ground])
        first = first or [output.clone() for output in ground.outputs(0)]
        case = ground.case(distribution)
        finding = judge_output(case.expected, ground.outputs(0), poison=ground.poison_word, hidden=ground.hidden)
        if finding is not None:
            return Outcome(finding.status, stage, finding.feedback)
    if stage is Stage.SMOKE or session.bench.threads > 1 or hopeless:
        return None
    _call(session, ground, distributions[0], 1)
    return _repeated(ground, first, stage)


def _is_hopeless(ground: Ground, seconds: float) -> bool:
    """Say whether a kernel is so slow on a timed workload that the rest of its distributions may be left out.

    All of them were checked on the hidden shapes. A seed's first steps would cost a minute each otherwise, and a
    kernel ten times slower than its baseline is not one that somebody is given.
    """
    return seconds > _SLOW_S and seconds * 1e6 > _HOPELESS * ground.least_us


def _repeated(ground: Ground, first: list[Array], stage: Stage) -> Outcome | None:
    """Return the verdict where a second run on the same inputs, in other buffers, gave other bits."""
    for tensor, one, two in zip(result_tensors(ground.task), first, ground.outputs(1), strict=True):
        if not identical(one, two):
            text = f"on {ground.label}: two calls on equal inputs gave different values of {tensor.name!r}"
            return Outcome(Status.NONDETERMINISTIC, stage, text)
    return None


def _call(session: Session, ground: Ground, distribution: str, set_index: int) -> float:
    """Run one call on a case; returns seconds."""
    limit = session.bench.settings.timeout_s
    # Stopped before the inputs are there, the worker cannot prepare anything from them.
    session.worker.prepare(ground.name, first_set=set_index, calls=1, timeout_s=limit)
    ground.put(set_index, ground.case(distribution).inputs)
    return session.worker.go(timeout_s=limit) / 1e9


def sanitize(bench: Bench, executable: bytes) -> tuple[Outcome | None, bool]:
    """Return the verdict of the sanitizers on a few hidden shapes, and whether they ran to the end on all of them.

    Raises:
        HarnessError: the executable did not understand its job.
    """
    complete = True
    for ground in bench.probes[:_SANITIZED_PROBES]:
        case = ground.case(bench.task.distributions[0])
        inputs = {name: raw_bytes(array) for name, array in case.inputs.items()}
        job = pack_job(bench.task.signature, ground.workload.dims, inputs)
        done = _run_job(bench, executable, job)
        if done.exit_code == EXIT_FOUND:
            return Outcome(Status.SANITIZER, Stage.SANITIZER, read_sanitizer_report(done.stderr)), True
        if done.exit_code == EXIT_BAD_JOB:
            raise HarnessError(f"the sanitizer executable did not understand its job: {done.stderr[-500:]}")
        if done.timed_out:
            complete = False
        elif not done.ok:
            how = f"killed by signal {done.signal}" if done.signal else f"ended the process with {done.exit_code}"
            return Outcome(Status.SANITIZER, Stage.SANITIZER, f"{how} under the sanitizers"), True
    return None, complete


def _run_job(bench: Bench, executable: bytes, job: bytes) -> Completed:
    with tempfile.TemporaryDirectory(prefix="evokernel-checked-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        program = folder / "checked"
        program.write_bytes(executable)
        program.chmod(0o755)
        (folder / "job").write_bytes(job)
        # Confined programs have no standard input; the shell gives this one its job.
        return run_confined(
            ["/bin/sh", "-c", "exec ./checked < job"],
            sandbox=bench.sandbox,
            paths=Paths(read_only=(folder,), folder=folder),
            limits=Limits(timeout_s=bench.settings.timeout_s, memory_bytes=None),
        )
