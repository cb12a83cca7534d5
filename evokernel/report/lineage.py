"""How a candidate came about, and everything known of one."""

from dataclasses import dataclass

from archive.lineage import ancestors, main_line
from archive.records import StoredCandidate, StoredEvaluation
from archive.store import Store
from evokernel.records.candidate import Proposal
from evokernel.records.evaluation import Speedup, combined_speedup
from evokernel.report.best import OverSeed, over_seed, verdicts_of
from evokernel.report.provenance import Provenance, making
from evokernel.report.verdicts import MeasurementKind, ProgramVerdicts


@dataclass(frozen=True, slots=True)
class LineageStep:
    """One candidate on the way. `speedup` is over the fastest baseline, by search numbers throughout.

    `gain` is its speed-up over its first parent, None where either was not timed; `predicted` what its operator
    expected of it, None where it said nothing.
    """

    candidate: str
    step: int
    operator: str
    island: str
    rationale: str
    parents: tuple[str, ...]
    inspirations: tuple[str, ...]
    origin: str
    mode: str
    speedup: float | None
    gain: float | None
    predicted: float | None
    making: Provenance
    status: str
    holdout: str


@dataclass(frozen=True, slots=True)
class CandidateDetails:
    """One candidate with its proposal, how that was made, and every evaluation of its program.

    `gain` is its speed-up over its first parent in the search; None where either was not timed.
    """

    stored: StoredCandidate
    proposal: Proposal | None
    making: Provenance
    gain: float | None
    evaluations: tuple[StoredEvaluation, ...]
    verdicts: ProgramVerdicts
    speedup: Speedup | None
    over_seed: OverSeed | None


def portrait(store: Store, name: str) -> CandidateDetails:
    """Return everything known of a candidate, given by id or beginning of one. Raises `StoreError`."""
    stored = store.candidate(name)
    verdicts = verdicts_of(store, stored.program_hash)
    reported = verdicts.reported
    proposal = store.proposal_of(stored.candidate.id)
    return CandidateDetails(
        stored=stored,
        proposal=proposal,
        making=making(store, proposal) if proposal else Provenance(),
        gain=_gain(store, proposal, verdicts),
        evaluations=tuple(store.evaluations_of(stored.program_hash)),
        verdicts=verdicts,
        speedup=combined_speedup(reported.timings) if reported else None,
        over_seed=over_seed(store, verdicts) if reported else None,
    )


def story(store: Store, name: str, *, everyone: bool = False) -> list[LineageStep]:
    """Return the way from the seed to a candidate along first parents.

    With `everyone` all its ancestors are returned instead, in the order of their steps, those that only inspired too.

    Raises:
        StoreError: no candidate, or several, have an id that begins with the name.
    """
    wanted = store.candidate(name).candidate.id
    if everyone:
        family = ancestors(store, wanted, inspirations=True) | {wanted}
        ids = sorted(family, key=lambda member: store.candidate(member).born)
    else:
        ids = main_line(store, wanted)
    return [_chapter(store, member) for member in ids]


def _chapter(store: Store, name: str) -> LineageStep:
    stored, proposal = store.candidate(name), store.proposal_of(name)
    verdicts = verdicts_of(store, stored.program_hash)
    return LineageStep(
        candidate=name,
        step=stored.born,
        operator=proposal.operator if proposal else "",
        island=proposal.island if proposal else "",
        rationale=proposal.rationale if proposal else "",
        parents=proposal.parents if proposal else (),
        inspirations=proposal.inspirations if proposal else (),
        origin=stored.origin,
        mode=verdicts.search.key.mode.value if verdicts.search else "",
        speedup=_searched(verdicts),
        gain=_gain(store, proposal, verdicts),
        predicted=proposal.predicted_speedup if proposal else None,
        making=making(store, proposal) if proposal else Provenance(),
        status=verdicts.failure.status.value if verdicts.failure else "ok" if verdicts.search else "not judged",
        holdout=verdicts.holdout.value,
    )


def _gain(store: Store, proposal: Proposal | None, verdicts: ProgramVerdicts) -> float | None:
    if proposal is None or not proposal.parents:
        return None
    speedup = _searched(verdicts)
    before = _searched(verdicts_of(store, store.candidate(proposal.parents[0]).program_hash))
    return speedup / before if speedup and before else None


def _searched(verdicts: ProgramVerdicts) -> float | None:
    evaluation = verdicts.of_kind(MeasurementKind.SEARCH)
    return combined_speedup(evaluation.timings).value if evaluation else None
