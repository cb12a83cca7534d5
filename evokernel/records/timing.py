"""Times as values: paired timings, speed-ups with their intervals, and the least time that a device needs."""

import math
from dataclasses import dataclass
from enum import StrEnum

Z95 = 1.96


class Verdict(StrEnum):
    """Comparison of a candidate's time with its baseline's."""

    FASTER = "faster"
    """The candidate takes less time."""
    SLOWER = "slower"
    """The candidate takes more time."""
    SAME = "same"
    """Within 0.5 %."""
    AMBIGUOUS = "ambiguous"
    """The 95 % interval crosses a border of 0.5 %."""


class Limit(StrEnum):
    """The resource that bounds the least time of a piece of work on a device."""

    MEMORY = "memory"
    """Memory bandwidth."""
    ARITHMETIC = "arithmetic"
    """Peak arithmetic rate."""
    LAUNCH = "launch"
    """Cost of one launch: memory and arithmetic would take less."""

    @property
    def bound(self) -> str:
        """The name of work with this limit."""
        return {Limit.MEMORY: "memory-bound", Limit.ARITHMETIC: "compute-bound", Limit.LAUNCH: "latency-bound"}[self]


@dataclass(frozen=True, slots=True)
class Floor:
    """The least time that a device could need for a piece of work."""

    us: float
    """That time in us; with `Limit.LAUNCH` the time of memory and arithmetic, which is less than a launch costs."""
    limit: Limit
    """The limit that decides."""


@dataclass(frozen=True, slots=True)
class Speedup:
    """Baseline time / candidate time with its 95 % confidence interval."""

    value: float
    """The estimate, > 0."""
    low: float
    """Low end of the interval."""
    high: float
    """High end of the interval."""

    @classmethod
    def from_log(cls, mean: float, error: float) -> "Speedup":
        """Make one from the natural logarithm of the ratio and its standard error."""
        return cls(math.exp(mean), math.exp(mean - Z95 * error), math.exp(mean + Z95 * error))


@dataclass(frozen=True, slots=True)
class Timing:
    """Paired timing on one workload against one baseline."""

    workload: str
    """Name of the workload."""
    baseline: str
    """Name of the baseline."""
    weight: float
    """Weight of the workload in the mean, > 0."""
    candidate_us: float
    """Time of one call of the candidate, in us."""
    baseline_us: float
    """Time of one call of the baseline, in us."""
    log_speedup: float
    """20 %-trimmed mean of the paired natural logarithms of baseline / candidate."""
    log_error: float
    """Standard error of `log_speedup`."""
    pairs: int
    """Number of pairs."""
    verdict: Verdict
    """Comparison of the two times."""
    floor_us: float | None = None
    """The least time that the device could need, in us; None where it is not known."""
    limit: Limit | None = None
    """The limit that decides the floor; None where it is not known, as in evaluations of older releases."""

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
        """The gain left for the weighted logarithm of the speed-up: up to the floor, else to the baseline."""
        return self.weight * math.log(self.candidate_us / (self.floor_us or self.baseline_us))


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
    """Return the names of the workloads' limits, such as `memory-bound`; nothing where none is known."""
    return ", ".join(dict.fromkeys(timing.limit.bound for timing in timings if timing.limit))


def microseconds(value: float) -> str:
    """Return a time of a kernel with its unit, for example `83.1 us`."""
    size, unit = (1e6, "s") if value >= 0.9995e6 else (1e3, "ms") if value >= 999.5 else (1, "us")
    return f"{value / size:#.3g}".rstrip(".") + f" {unit}"
