"""A change of the leader of a run."""

import math
from dataclasses import dataclass

from evokernel.records.evaluation import Fidelity, Mode
from evokernel.records.fitness import Fitness


@dataclass(frozen=True, slots=True)
class LeaderChange:
    """A judged kernel that took the lead of its run, and the measurement by which it leads."""

    seq: int
    """The fact that holds its result."""
    at: float
    """The time of that fact, in s since 1970, by the clock of the machine that searched."""
    candidate: str
    """Its id."""
    program_hash: str
    """The hash of its source."""
    operator: str
    """The operator that proposed it."""
    island: str
    """The population it was proposed for; `*` for all."""
    rationale: str
    """The reason that its operator gave."""
    mode: Mode
    """Way in which it ran."""
    fidelity: Fidelity
    """Fidelity of its measurement; never `final`."""
    fitness: Fitness
    """The lead goes to the highest."""
    evaluation_seq: int
    """The fact that holds its evaluation."""

    @property
    def speedup(self) -> float:
        """The combined speed-up over the fastest baselines."""
        return math.exp(self.fitness.log_speedup)

    @property
    def low(self) -> float:
        """The low end of the 95 % interval of the speed-up."""
        return math.exp(self.fitness.value)
