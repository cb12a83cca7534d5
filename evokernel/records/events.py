"""Events of a running search, for listeners."""

from dataclasses import dataclass

from evokernel.records.candidate import Proposal
from evokernel.records.evaluation import Evaluation
from evokernel.records.leader import LeaderChange


@dataclass(frozen=True, slots=True)
class ProposalCommitted:
    """A proposal was stored and waits for its evaluation."""

    proposal: Proposal


@dataclass(frozen=True, slots=True)
class ResultCommitted:
    """A result was committed."""

    proposal: Proposal
    """The proposal that was judged."""
    evaluation: Evaluation
    """Its verdict."""
    seq: int
    """The fact that holds the result."""
    change: LeaderChange | None
    """The change of the leader that it made; None where it is not the best of the run so far."""
    reused: bool
    """The evaluation was in the store already."""

    @property
    def improved(self) -> bool:
        """Say whether it is the best of the run so far."""
        return self.change is not None


@dataclass(frozen=True, slots=True)
class Notice:
    """Something a person should read: a phase began, an island was reset, a crown was refused."""

    text: str
    warning: bool = False


Event = ProposalCommitted | ResultCommitted | Notice
