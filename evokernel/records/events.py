"""Events of a running search, for listeners."""

from dataclasses import dataclass

from evokernel.records.candidate import Proposal
from evokernel.records.evaluation import Evaluation
from evokernel.records.leader import LeaderChange
from evokernel.records.remarks import RemarkKind


@dataclass(frozen=True, slots=True)
class ProposalCommitted:
    """A proposal was stored and waits for its evaluation."""

    proposal: Proposal
    """The proposal."""


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


@dataclass(frozen=True, slots=True)
class Notice:
    """Something a person should read: a phase began, an island was reset, a winner did not hold."""

    text: str
    """One line."""
    warning: bool = False
    """Something is wrong."""
    kind: RemarkKind | None = None
    """The kind of remark under which the store keeps it; None for a notice that is not kept."""
    step: int | None = None
    """The step that it is about; None where it is about none."""
    candidate: str = ""
    """The id of the candidate that it is about; empty where it is about none."""


Event = ProposalCommitted | ResultCommitted | Notice
