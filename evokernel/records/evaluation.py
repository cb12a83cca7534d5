"""Evaluations: verdicts as values. A failing candidate gets a status, a stage and feedback, never an exception."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from evokernel.records.candidate import Candidate
from evokernel.records.hidden_check import HiddenCheck, digest_of
from evokernel.records.timing import Floor as Floor  # evaluators of users name these three here
from evokernel.records.timing import Limit as Limit
from evokernel.records.timing import Speedup, Timing, combined_speedup
from evokernel.records.timing import Verdict as Verdict

NONDETERMINISTIC = "nondeterministic"
"""Metric: 1 where calls on equal inputs gave other bits within the tolerance, else 0; absent in older stores."""


class Mode(StrEnum):
    """Way in which a candidate runs; shown wherever a score is."""

    WORKER = "worker"
    """A sandboxed worker runs its host code."""
    ARTIFACT = "artifact"
    """Its launches are recorded, and the trusted runner repeats them."""


class Fidelity(StrEnum):
    """Cost of a measurement; one at a larger fidelity is a different evaluation."""

    QUICK = "quick"
    """Short, for every right candidate."""
    PRECISE = "precise"
    """Longer, for a candidate that may be the best."""
    FINAL = "final"
    """In fresh processes, after the held-out workloads; for winners."""


class Stage(StrEnum):
    """Stages of the cascade, cheapest first; an evaluation names the last one reached."""

    STATIC = "static"
    """The text is checked."""
    COMPILE = "compile"
    """The source is built."""
    SMOKE = "smoke"
    """Its outputs are compared on one hidden workload."""
    CORRECTNESS = "correctness"
    """Its outputs are compared on every workload and distribution."""
    SANITIZER = "sanitizer"
    """It runs under sanitizers."""
    QUICK = "quick timing"
    """It is timed at fidelity `quick`."""
    PRECISE = "precise timing"
    """It is timed at fidelity `precise`."""
    FINAL = "final timing"
    """It is timed at fidelity `final`."""


class Status(StrEnum):
    """Verdict on a candidate. Only `OK` carries timings that count."""

    OK = "ok"
    """Right and measured."""
    STATIC_REJECT = "static_reject"
    """Its text is refused."""
    COMPILE_ERROR = "compile_error"
    """It does not compile."""
    COMPILE_TIMEOUT = "compile_timeout"
    """Its build ran into the time limit."""
    LOAD_ERROR = "load_error"
    """The compiled kernel cannot be loaded."""
    WORKER_DIED = "worker_died"
    """Its process ended."""
    HOST_EXCEPTION = "host_exception"
    """Its host code raised an exception."""
    DEVICE_FAULT = "device_fault"
    """A kernel failed on the GPU."""
    TIMEOUT = "timeout"
    """It ran into the time limit."""
    OUT_OF_MEMORY = "out_of_memory"
    """Memory could not be allocated."""
    UNWRITTEN_OUTPUT = "unwritten_output"
    """Elements of an output were never written."""
    NONFINITE = "nonfinite"
    """An output is NaN or infinite where it must not be, or the reverse."""
    NUMERICAL = "numerical"
    """An output is wrong."""
    NONDETERMINISTIC = "nondeterministic"
    """Equal inputs gave different outputs."""
    OUT_OF_BOUNDS = "out_of_bounds"
    """It wrote or read outside its buffers."""
    SANITIZER = "sanitizer"
    """A sanitizer found a fault."""
    CHEAT_SUSPECT = "cheat_suspect"
    """It behaved under the clock as no honest kernel does."""
    IMPOSSIBLE_SPEED = "impossible_speed"
    """It is faster than the device allows."""
    HOLDOUT_FAILED = "holdout_failed"
    """It failed on a workload that the search does not see."""
    HARNESS_ERROR = "harness_error"
    """Our own machinery failed: no verdict."""


@dataclass(frozen=True, slots=True)
class EvaluationKey:
    """Everything that must be equal for a stored evaluation to be used again."""

    program_hash: str
    """Hash of the source."""
    task_hash: str
    """Hash of the task's text and the evaluation settings."""
    device: str
    """Name of the device."""
    environment: str
    """Compiler, version and flags, and a hash of the hidden checks that the run has added, if it has."""
    evaluator_version: str
    """Version of the evaluator's rules."""
    mode: Mode
    """Way in which the candidate runs."""
    budget: Fidelity
    """Fidelity of the measurement."""

    @property
    def digest(self) -> str:
        """16 hex digits over all fields."""
        return hashlib.sha256("\0".join(self.fields).encode()).hexdigest()[:16]

    @property
    def fields(self) -> tuple[str, ...]:
        """The values of all fields, in their order."""
        return (
            self.program_hash,
            self.task_hash,
            self.device,
            self.environment,
            self.evaluator_version,
            str(self.mode),
            str(self.budget),
        )


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One verdict on a program."""

    key: EvaluationKey
    """Everything that must be equal for it to be used again."""
    candidate_id: str
    """Id of the candidate that was judged."""
    status: Status
    """The verdict."""
    stage: Stage
    """The last stage reached."""
    timings: tuple[Timing, ...] = ()
    """Against the anchor baseline of each search workload; empty unless the status is `OK`."""
    panel: Mapping[str, Speedup] = field(default_factory=dict)
    """Speed-up against each baseline, by name, for a final measurement."""
    descriptor: Mapping[str, float] = field(default_factory=dict)
    """Behaviour measured from what was compiled and run, by name."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Numbers by name, with their unit in the name."""
    feedback: str = ""
    """Text for the author."""
    artifact_hash: str = ""
    """Hash over what was compiled; empty where there is none."""
    stopped_early: bool = False
    """Clearly slower than the incumbent before the budget was used."""
    duration_s: float = 0.0
    """Time from request to verdict, in s."""
    sandbox: str = ""
    """Confinement of the candidate, one line."""

    def __post_init__(self) -> None:
        if (self.status is Status.OK) != bool(self.timings):
            raise ValueError(f"an evaluation has timings exactly when its status is ok, not {self.status!r}")

    def __str__(self) -> str:
        """Return the verdict as text: status, stage, speed-up with its 95 % interval, feedback."""
        text = f"{self.status} at {self.stage}, {self.key.mode} mode{self.mark}"
        if (speedup := self.speedup) is not None:
            text += f": {speedup.value:.3g}x ({speedup.low:.3g} to {speedup.high:.3g}) the fastest baseline"
        return f"{text}\n{self.feedback}".rstrip()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show the text where a notebook shows a value."""
        printer.text(str(self))

    @property
    def ok(self) -> bool:
        """Right and measured."""
        return self.status is Status.OK

    @property
    def speedup(self) -> Speedup | None:
        """Over the fastest baseline of each search workload, on all of them; None for what was not timed."""
        return combined_speedup(self.timings) if self.ok else None

    @property
    def nondeterministic(self) -> bool:
        """Calls on equal inputs gave other bits, all of them within the tolerance; False where that was not asked."""
        return self.metrics.get(NONDETERMINISTIC, 0.0) > 0

    @property
    def mark(self) -> str:
        """Words to follow its mode wherever that is shown: nothing, or that its bits differ from run to run."""
        return ", nondeterministic" if self.nondeterministic else ""

    @property
    def remarks(self) -> str:
        """The lines of the feedback beside the timings: the way it was run, findings of a profile."""
        known = ("all:", *(f"{timing.workload}:" for timing in self.timings))
        return "\n".join(line for line in self.feedback.split("\n") if line.strip() and not line.startswith(known))

    @property
    def holdout_speedup(self) -> Speedup | None:
        """The speed-up over the fastest baselines on the held-out workloads; None for what was not measured there."""
        try:
            value, low, high = (self.metrics[f"holdout_speedup{end}"] for end in ("", "_low", "_high"))
        except KeyError:
            return None
        return Speedup(value, low, high)


def harness_failure(key: EvaluationKey, candidate_id: str, reason: str) -> Evaluation:
    """Return the record of a fault of our own: no verdict on the candidate, never used again."""
    return Evaluation(key, candidate_id, Status.HARNESS_ERROR, Stage.STATIC, feedback=reason)


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """One candidate to judge."""

    candidate: Candidate
    """The source."""
    program_hash: str
    """Hash of the source."""
    budget: Fidelity
    """Fidelity of the measurement."""
    incumbent: Mapping[str, float] = field(default_factory=dict)
    """By workload, the speed-up of the incumbent; clearly below it a quick timing stops early."""
    processes: int = 0
    """Processes of a final measurement without GPU sanitizers, to compare with; 0 for a whole one in fresh ones.

    One may be the process that was kept for it.
    """
    keep_last: bool = False
    """Keep the last process of a whole final measurement for one that is compared with it in one process."""
    checks: tuple[HiddenCheck, ...] = ()
    """Hidden checks that the run has added, oldest first; part of the key of its evaluation."""
    after_process: Callable[[int, int], None] | None = field(default=None, compare=False)
    """Called after each process of a final measurement but the last, with how many have ended and how many there are.

    An evaluator on other machines may leave it out.
    """


@dataclass(frozen=True, slots=True)
class EvaluatorIdentity:
    """The evaluator's part of an evaluation's key, and its measurements of the device."""

    task_hash: str
    """Hash of the task's text and the evaluation settings."""
    device: str
    """Name of the device."""
    environment: str
    """Compiler, version and flags."""
    evaluator_version: str
    """Version of the evaluator's rules."""
    mode: Mode
    """Way in which candidates run; worker mode takes those that cannot be recorded."""
    device_sheet: Mapping[str, float]
    """Measured peak rates in GFLOP/s and bandwidths in GB/s, by name."""
    sandbox: str
    """Confinement of candidates, one line."""
    baseline_us: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Time of each baseline by workload and name, in us."""
    earlier_task_hashes: frozenset[str] = frozenset()
    """Task hashes under which results mean the same; stores that hold them go on."""

    def key(
        self, program_hash: str, budget: Fidelity, *, mode: Mode | None = None, checks: Sequence[HiddenCheck] = ()
    ) -> EvaluationKey:
        """Return the key of an evaluation made by this evaluator; `mode` where it is not the evaluator's own.

        `checks` are the hidden ones that the run has added.
        """
        return EvaluationKey(
            program_hash=program_hash,
            task_hash=self.task_hash,
            device=self.device,
            environment=self.environment + (f"; hidden checks {digest_of(checks)}" if checks else ""),
            evaluator_version=self.evaluator_version,
            mode=mode or self.mode,
            budget=budget,
        )

    def keys(
        self, program_hash: str, budget: Fidelity, *, checks: Sequence[HiddenCheck] = ()
    ) -> tuple[EvaluationKey, ...]:
        """Return every key that this evaluator's verdict on a program may have, the likeliest first."""
        modes = (Mode.ARTIFACT, Mode.WORKER) if self.mode is Mode.ARTIFACT else (self.mode,)
        return tuple(self.key(program_hash, budget, mode=mode, checks=checks) for mode in modes)
