"""Events of a running search, for listeners."""

from dataclasses import dataclass

from evokernel.records.candidate import Proposal
from evokernel.records.evaluation import Evaluation


@dataclass(frozen=True, slots=True)
class ProposalCommitted:
    """A proposal was stored and waits for its evaluation."""

    proposal: Proposal


@dataclass(frozen=True, slots=True)
class ResultCommitted:
    """A result was committed. `improved` says it is the best of the run so far."""

    proposal: Proposal
    evaluation: Evaluation
    seq: int
    improved: bool
    reused: bool


@dataclass(frozen=True, slots=True)
class Notice:
    """Something a person should read: a phase began, an island was reset, a winner did not hold."""

    text: str
    warning: bool = False


Event = ProposalCommitted | ResultCommitted | Notice
