"""Verdicts. An evaluation is a value: a failing candidate gets a status, a stage and feedback, never an exception."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from evokernel.records.candidate import Candidate

Z95 = 1.96


class Mode(StrEnum):
    """How a candidate was run; shown wherever a score is."""

    WORKER = "worker"
    ARTIFACT = "artifact"


class Fidelity(StrEnum):
    """How much time a measurement may take; a larger one is a different evaluation."""

    QUICK = "quick"
    PRECISE = "precise"
    FINAL = "final"


class Stage(StrEnum):
    """The steps of the cascade, cheapest first; an evaluation names the last one it reached."""

    STATIC = "static"
    COMPILE = "compile"
    SMOKE = "smoke"
    CORRECTNESS = "correctness"
    SANITIZER = "sanitizer"
    QUICK = "quick timing"
    PRECISE = "precise timing"
    FINAL = "final timing"


class Status(StrEnum):
    """What became of a candidate. Only `OK` carries timings that count."""

    OK = "ok"
    STATIC_REJECT = "static_reject"
    COMPILE_ERROR = "compile_error"
    COMPILE_TIMEOUT = "compile_timeout"
    LOAD_ERROR = "load_error"
    WORKER_DIED = "worker_died"
    HOST_EXCEPTION = "host_exception"
    DEVICE_FAULT = "device_fault"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    UNWRITTEN_OUTPUT = "unwritten_output"
    NONFINITE = "nonfinite"
    NUMERICAL = "numerical"
    NONDETERMINISTIC = "nondeterministic"
    OUT_OF_BOUNDS = "out_of_bounds"
    SANITIZER = "sanitizer"
    CHEAT_SUSPECT = "cheat_suspect"
    IMPOSSIBLE_SPEED = "impossible_speed"
    HOLDOUT_FAILED = "holdout_failed"
    HARNESS_ERROR = "harness_error"


class Verdict(StrEnum):
    """How a candidate's time compares with its baseline's; within 0.5 % is the same."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    AMBIGUOUS = "ambiguous"


class Limit(StrEnum):
    """What keeps a piece of work from taking less time on a device, whoever writes the kernel."""

    MEMORY = "memory"
    ARITHMETIC = "arithmetic"
    LAUNCH = "launch"

    @property
    def bound(self) -> str:
        """How work with this limit is called."""
        return {Limit.MEMORY: "memory-bound", Limit.ARITHMETIC: "compute-bound", Limit.LAUNCH: "latency-bound"}[self]


@dataclass(frozen=True, slots=True)
class Floor:
    """The least time a device could need for a piece of work, in us, and which of its limits decides.

    With `Limit.LAUNCH` memory and arithmetic would take `us`, which is less than a launch costs.
    """

    us: float
    limit: Limit


@dataclass(frozen=True, slots=True)
class Speedup:
    """Baseline time / candidate time with its 95 % confidence interval."""

    value: float
    low: float
    high: float

    @classmethod
    def from_log(cls, mean: float, error: float) -> "Speedup":
        """Make one from the natural logarithm of the ratio and its standard error."""
        return cls(math.exp(mean), math.exp(mean - Z95 * error), math.exp(mean + Z95 * error))


@dataclass(frozen=True, slots=True)
class Timing:
    """Paired timing on one workload against one baseline.

    `log_speedup` is the 20 %-trimmed mean of the paired log ratios baseline / candidate, `log_error` its standard
    error, `pairs` their number. `floor_us` is the least time the device could need and `limit` what decides it, where
    they are known; evaluations of older releases have no `limit`.
    """

    workload: str
    baseline: str
    weight: float
    candidate_us: float
    baseline_us: float
    log_speedup: float
    log_error: float
    pairs: int
    verdict: Verdict
    floor_us: float | None = None
    limit: Limit | None = None

    def __post_init__(self) -> None:
        if not (self.candidate_us > 0 and self.baseline_us > 0 and math.isfinite(self.log_speedup)):
            raise ValueError(f"timing of {self.workload!r} must be positive and finite")

    @property
    def speedup(self) -> Speedup:
        """The speed-up on this workload."""
        return Speedup.from_log(self.log_speedup, self.log_error)

    @property
    def floor_share(self) -> float | None:
        """Floor time / candidate time, where the floor is known: 1 cannot be passed but by the floor's own error."""
        return self.floor_us / self.candidate_us if self.floor_us else None

    @property
    def to_gain(self) -> float:
        """What the weighted logarithm of the speed-up can still gain here: up to the floor, else to the baseline."""
        return self.weight * math.log(self.candidate_us / (self.floor_us or self.baseline_us))


@dataclass(frozen=True, slots=True)
class EvaluationKey:
    """Everything that must be equal for a stored evaluation to be used again."""

    program_hash: str
    task_hash: str
    device: str
    environment: str
    evaluator_version: str
    mode: Mode
    budget: Fidelity

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
    """One verdict on a program.

    `timings` are against the anchor baseline of each search workload (for budget `final` in fresh processes, after the
    held-out workloads were judged right; how fast those ran is in `metrics` as `holdout_speedup`);
    `panel` holds the speed-up against each baseline, for crowned candidates. `metrics` are numbers with their unit in
    the name; `descriptor` is behaviour measured from what was compiled and run. `stopped_early` marks a candidate
    that was clearly slower than the incumbent before the budget was used.
    """

    key: EvaluationKey
    candidate_id: str
    status: Status
    stage: Stage
    timings: tuple[Timing, ...] = ()
    panel: Mapping[str, Speedup] = field(default_factory=dict)
    descriptor: Mapping[str, float] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    feedback: str = ""
    artifact_hash: str = ""
    stopped_early: bool = False
    duration_s: float = 0.0
    sandbox: str = ""

    def __post_init__(self) -> None:
        if (self.status is Status.OK) != bool(self.timings):
            raise ValueError(f"an evaluation has timings exactly when its status is ok, not {self.status!r}")

    @property
    def ok(self) -> bool:
        """Right and measured."""
        return self.status is Status.OK

    @property
    def remarks(self) -> str:
        """What the feedback says beside the timings: how it was run, what a profile shows."""
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


def combined_speedup(timings: tuple[Timing, ...]) -> Speedup:
    """Return the weighted geometric mean over workloads. Raises `ValueError` for no timings."""
    total = sum(timing.weight for timing in timings)
    if total <= 0:
        raise ValueError("no timings to combine")
    mean = sum(timing.weight * timing.log_speedup for timing in timings) / total
    error = math.sqrt(sum((timing.weight * timing.log_error) ** 2 for timing in timings)) / total
    return Speedup.from_log(mean, error)


def floor_share(timings: tuple[Timing, ...]) -> float | None:
    """Return floor time / candidate time, the weighted geometric mean over workloads with a known floor, or None."""
    known = [(timing.weight, math.log(timing.floor_share)) for timing in timings if timing.floor_share]
    total = sum(weight for weight, _ in known)
    return math.exp(sum(weight * share for weight, share in known) / total) if total else None


def bounds(timings: tuple[Timing, ...]) -> str:
    """Return how the workloads are called by their limits, such as `memory-bound`; nothing where none is known."""
    return ", ".join(dict.fromkeys(timing.limit.bound for timing in timings if timing.limit))


def harness_failure(key: EvaluationKey, candidate_id: str, reason: str) -> Evaluation:
    """Return the record of a fault of our own: no verdict on the candidate, never used again."""
    return Evaluation(key, candidate_id, Status.HARNESS_ERROR, Stage.STATIC, feedback=reason)


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """One candidate to judge. Timing may stop early below half of the `incumbent` speed-up of a workload, by name.

    `processes` is how many fresh processes measure it for the budget `final`; 0 for as many as the settings say.
    """

    candidate: Candidate
    program_hash: str
    budget: Fidelity
    incumbent: Mapping[str, float] = field(default_factory=dict)
    processes: int = 0


@dataclass(frozen=True, slots=True)
class EvaluatorIdentity:
    """The parts of an evaluation's key that the evaluator knows, and what it measured of the device at start.

    `mode` is how candidates are run unless one cannot be: what cannot be recorded is run in worker mode.
    `device_sheet` holds peak rates in GFLOP/s and bandwidths in GB/s by name; `sandbox` is one line for people;
    `baseline_us` is the time of each baseline by workload and name, in us. With `earlier_task_hashes` results mean the
    same, too: stores that hold them are gone on with.
    """

    task_hash: str
    device: str
    environment: str
    evaluator_version: str
    mode: Mode
    device_sheet: Mapping[str, float]
    sandbox: str
    baseline_us: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    earlier_task_hashes: frozenset[str] = frozenset()

    def key(self, program_hash: str, budget: Fidelity, *, mode: Mode | None = None) -> EvaluationKey:
        """Return the key of an evaluation made by this evaluator; `mode` where it is not the evaluator's own."""
        return EvaluationKey(
            program_hash=program_hash,
            task_hash=self.task_hash,
            device=self.device,
            environment=self.environment,
            evaluator_version=self.evaluator_version,
            mode=mode or self.mode,
            budget=budget,
        )

    def keys(self, program_hash: str, budget: Fidelity) -> tuple[EvaluationKey, ...]:
        """Return every key that this evaluator's verdict on a program may have, the likeliest first."""
        modes = (Mode.ARTIFACT, Mode.WORKER) if self.mode is Mode.ARTIFACT else (self.mode,)
        return tuple(self.key(program_hash, budget, mode=mode) for mode in modes)
