"""The checks of the cascade, cheapest first: smoke, correctness everywhere, sanitizers, fences."""

import itertools
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from evokernel.errors import HarnessError, WorkerError
from evokernel.evaluate.bench.bench import Bench
from evokernel.evaluate.bench.candidate_session import CandidateSession, WorkerSession
from evokernel.evaluate.bench.feedback import failure, out_of_bounds
from evokernel.evaluate.bench.workload import BoundWorkload, WorkloadPurpose, has_answer
from evokernel.evaluate.numerics.canary import stored_bytes
from evokernel.evaluate.numerics.hidden_shapes import LARGE_SHAPES
from evokernel.evaluate.numerics.odd_shapes import singled_out_workloads
from evokernel.evaluate.sandbox.run_once import ProcessLimits, VisiblePaths, let_read, run_confined
from evokernel.evaluate.sandbox.seccomp import Children
from evokernel.evaluate.wire import HELD_OUT, PhaseVerdict
from evokernel.languages.cpp.checked_job import EXIT_BAD_JOB, EXIT_FOUND, pack_job, read_sanitizer_report
from evokernel.records.evaluation import NONDETERMINISTIC, Mode, Stage, Status
from evokernel.records.process_exit import ProcessExit
from evokernel.task import ENDS, TINY

_SANITIZED_PROBES, _SMALL_PROBES = 3, 2
_TIMEOUTS_PER_CALL = 1.5
"""Limit of all calls: so many times `timeout_s` for each check of one workload, since a seed may be very slow."""
_BUSY = 4
"""Limit of the judge's clock beside that: other programs slow an honest kernel down, and its calls need not be all that
a candidate does.
"""
OTHER_BITS = "nondeterministic: calls on equal inputs gave other bits, all of them within the tolerance"
_TINY_SHAPES = 4
"""Odd shapes that are checked on tiny numbers, too."""
_SINGLED_OUT, _WINNERS_SHAPES = 8, 96
"""Shapes for the numbers in a program, in a search and of a winner."""
_SANITIZED_TRIES = 2
"""Runs that must be out of time before that is a finding: the machine may be busy."""


def check(
    session: CandidateSession,
    executable: bytes | None,
    *,
    thoroughly: bool,
    numbers: Sequence[int] = (),
) -> PhaseVerdict:
    """Return the verdict of the first failed check, or one without status; `metrics` has seconds by stage.

    Args:
        executable: the build with sanitizers.
        thoroughly: the session's own sanitizers run, too.
        numbers: those in the candidate's machine code, where they are known.
    """
    bench, began = session.bench, time.monotonic()
    smoke = bench.probes[min(1, len(bench.probes) - 1)]
    found = _try(session, smoke, bench.task.distributions[:1], Stage.SMOKE)
    for bound in bench.workloads:
        found = found or _try(session, bound, bound.distributions, Stage.CORRECTNESS)
        found = found or too_slow(session, time.monotonic() - began)
    found = found or try_odd_shapes(session)
    found = found or try_singled_out(session, numbers, most=_WINNERS_SHAPES if bench.final else _SINGLED_OUT)
    for bound in bench.workloads:  # a kernel may reach the buffers of other workloads, too
        found = found or out_of_bounds(bound, Stage.CORRECTNESS)
    checked = time.monotonic()
    sanitized, remarks = False, ""
    if found is None and executable is not None:
        found, sanitized = sanitize(session, executable)
    elif found is None and thoroughly:
        inspected = session.sanitize()
        found, sanitized, remarks = inspected.verdict, inspected.complete, inspected.remarks
    found = found or touch_fences(session, Stage.SANITIZER)
    if session.nondeterministic:
        remarks = "\n".join(filter(None, (OTHER_BITS, remarks)))
    metrics = {
        "check_s": checked - began,
        "sanitizer_s": time.monotonic() - checked,
        "sanitized": float(sanitized),
        NONDETERMINISTIC: float(session.nondeterministic),
    }
    found = found or PhaseVerdict(None, Stage.CORRECTNESS)
    return PhaseVerdict(found.status, found.stage, found.feedback, metrics=metrics, remarks=remarks)


def too_slow(session: CandidateSession, elapsed_s: float) -> PhaseVerdict | None:
    """Return the verdict where the calls so far took too long, or all that the judge has done for them."""
    bench = session.bench
    limit_s = _TIMEOUTS_PER_CALL * (len(bench.task.distributions) + 1) * bench.settings.timeout_s
    if max(session.called_s, elapsed_s / _BUSY) <= limit_s:
        return None
    text = f"the checks took more than {limit_s:g} s in all; the kernel is far too slow"
    return PhaseVerdict(Status.TIMEOUT, Stage.CORRECTNESS, text)


def check_added(session: CandidateSession) -> PhaseVerdict:
    """Return the verdict of the first check that the run has added and that fails, or one without status."""
    found = None
    for bound in session.bench.added:
        found = found or _try(session, bound, bound.distributions, Stage.CORRECTNESS)
    for bound in session.bench.workloads:
        found = found or out_of_bounds(bound, Stage.CORRECTNESS)
    return found or PhaseVerdict(None, Stage.CORRECTNESS)


def _try(
    session: CandidateSession, bound: BoundWorkload, distributions: tuple[str, ...], stage: Stage
) -> PhaseVerdict | None:
    session.bench.spare_memory(bound)
    try:
        found = session.compare(bound, distributions, stage)
    except WorkerError as error:
        # a worker may tell of hidden shapes, which it has met first, wherever its words are shown
        found = failure(error, stage, f"on {bound.label}", hidden=bound.hidden or session.mode is Mode.WORKER)
    found = out_of_bounds(bound, stage) or found
    if found is not None and bound.kind is WorkloadPurpose.HOLDOUT:
        return PhaseVerdict(Status.HOLDOUT_FAILED, stage, HELD_OUT)
    return found


def try_odd_shapes(session: CandidateSession) -> PhaseVerdict | None:
    """Return the verdict where a kernel is wrong on shapes that no other check has, or on tiny numbers."""
    bench = session.bench
    tiny = [TINY] if TINY in bench.task.distributions else []
    plan = [(bound, bench.task.distributions[0]) for bound in bench.odd]
    plan += itertools.product(bench.odd[:_TINY_SHAPES], tiny)
    tried = (_try(session, bound, (distribution,), Stage.CORRECTNESS) for bound, distribution in plan)
    return next(filter(None, tried), None)


def try_singled_out(session: CandidateSession, numbers: Sequence[int], *, most: int) -> PhaseVerdict | None:
    """Return the verdict where a kernel is wrong on sizes that numbers in its own machine code single out."""
    bench = session.bench
    if bench.bind_alone is None:
        return None
    offered = bench.task.workloads[bench.device.device_class]
    for workload in singled_out_workloads(bench.task, offered, numbers, bench.rng, most=most):
        with closing(bench.bind_alone(workload)) as bound:
            if not has_answer(bound, bench.task.distributions[0]):
                continue
            found = _try(session, bound, bench.task.distributions[:1], Stage.CORRECTNESS)
        if found is not None:
            return found
    return None


def touch_fences(session: CandidateSession, stage: Stage) -> PhaseVerdict | None:
    """Return the verdict where the shipped build, which no sanitizer has seen, reaches beyond its buffers."""
    declared = session.bench.task.distributions
    checked = (declared[0], *(each for each in declared if each in ENDS))
    for bound, distribution in itertools.product(session.bench.fenced, checked):
        found = _try(session, bound, (distribution,), stage)
        if found is not None and found.status is Status.WORKER_DIED:
            text = f"{found.feedback}; the pages before and behind each buffer could not be accessed"
            return PhaseVerdict(Status.OUT_OF_BOUNDS, stage, text)
        if found is not None:
            return found
    return None


def sanitize(session: CandidateSession, executable: bytes) -> tuple[PhaseVerdict | None, bool]:
    """Return the verdict of the sanitizers on a few hidden shapes, and whether they ran to the end on all of them.

    The calls of a process are of several shapes, as memory may be kept for the first. To run out of time is a finding
    where the shipped build needed a tiny part of it. Raises `HarnessError` if the executable did not understand a job.
    """
    bench, complete = session.bench, True
    must_end = isinstance(session, WorkerSession) and session.patient_s < bench.settings.timeout_s
    clean = int(bench.rng.integers(1, EXIT_BAD_JOB))  # a candidate may end the process by itself
    for jobs in filter(None, _jobs(bench, status=clean)):
        for _ in range(_SANITIZED_TRIES if must_end else 1):
            done = _run_jobs(bench, executable, b"".join(jobs))
            if not done.timed_out:
                break
        if done.exit_code == EXIT_FOUND:
            return PhaseVerdict(Status.SANITIZER, Stage.SANITIZER, read_sanitizer_report(done.stderr)), True
        if done.exit_code == EXIT_BAD_JOB:
            raise HarnessError(f"the sanitizer executable did not understand its job: {done.stderr[-500:]}")
        if done.too_large:
            text = f"more than {_memory(bench) >> 20} MiB of memory in use under the sanitizers"
            return PhaseVerdict(Status.OUT_OF_MEMORY, Stage.SANITIZER, text), True
        if done.timed_out and must_end:
            text = f"quick calls did not end within {bench.settings.timeout_s:g} s under the sanitizers"
            return PhaseVerdict(Status.SANITIZER, Stage.SANITIZER, f"{text}: code must do the same there"), True
        if done.timed_out:
            complete = False
        elif done.exit_code != clean:
            how = f"killed by signal {done.signal}" if done.signal else f"ended the process with {done.exit_code}"
            return PhaseVerdict(Status.SANITIZER, Stage.SANITIZER, f"{how} under the sanitizers"), True
    return None, complete


def _jobs(bench: Bench, *, status: int) -> tuple[list[bytes], ...]:
    """Return the calls of each process: all shapes on the usual contents, and the smallest on those of all other kinds.

    What a kernel reads may hang on what it has read.
    """
    task, first, *others = bench.task, *bench.task.distributions
    drawn = [bound for bound in bench.probes if bound.workload.name not in LARGE_SHAPES]  # too slow here
    shapes = drawn[:_SANITIZED_PROBES]
    small = sorted(shapes, key=lambda bound: task.bytes_at(bound.workload))[:_SMALL_PROBES]

    def job(bound: BoundWorkload, distribution: str) -> bytes:
        inputs, sizes = bound.case(distribution).inputs, bound.workload.sizes
        stored = {each.name: stored_bytes(each, inputs[each.name], sizes) for each in task.signature.inputs}
        return pack_job(task.signature, bound.workload.dims, stored, status=status)

    return [job(bound, first) for bound in shapes], [job(bound, each) for bound in small for each in others]


def _run_jobs(bench: Bench, executable: bytes, jobs: bytes) -> ProcessExit:
    with tempfile.TemporaryDirectory(prefix="evokernel-checked-") as name:
        folder = Path(name)
        program = folder / "checked"
        program.write_bytes(executable)
        program.chmod(0o755)
        (folder / "jobs").write_bytes(jobs)
        let_read(folder)
        # Confined programs have no standard input; the shell gives this one its jobs.
        return run_confined(
            ["/bin/sh", "-c", "exec ./checked < jobs"],
            sandbox=bench.sandbox,
            paths=VisiblePaths(read_only=(folder,), folder=folder),
            limits=ProcessLimits(timeout_s=bench.settings.timeout_s, memory_bytes=None, resident_bytes=_memory(bench)),
            children=Children.NONE if bench.threads == 1 else Children.THREADS,
        )


def _memory(bench: Bench) -> int:
    """Return the limit of memory in use under the sanitizers, in bytes: they keep shadow memory and freed blocks."""
    return 2 * bench.settings.memory_mib << 20
