"""Lineage of a candidate, and all its facts."""

from dataclasses import dataclass

from archive.file.records import StoredCandidate, StoredEvaluation
from archive.lineage import ancestors, main_line
from archive.store import Store
from evokernel.records.candidate import Proposal
from evokernel.records.timing import Speedup, combined_speedup
from evokernel.report.best import OverSeed, over_seed, verdicts_of
from evokernel.report.provenance import Provenance, making
from evokernel.report.verdicts import MeasurementKind, ProgramVerdicts


@dataclass(frozen=True, slots=True)
class LineageStep:
    """One candidate of a lineage."""

    candidate: str
    """Its id."""
    step: int
    operator: str
    island: str
    rationale: str
    """Reason that the operator gave."""
    parents: tuple[str, ...]
    inspirations: tuple[str, ...]
    """Ids of kernels that only inspired."""
    origin: str
    """Run and step that a fork copied it from; empty for its own run."""
    mode: str
    """Mode of the search evaluation; empty without one."""
    speedup: float | None
    """Over the fastest baseline, by the search evaluation; None without one."""
    gain: float | None
    """Speed-up over the first parent; None where either was not timed."""
    predicted: float | None
    """Gain that the operator predicted; None without a prediction."""
    making: Provenance
    status: str
    """`ok`, the newest failure, or `not judged`."""
    holdout: str


@dataclass(frozen=True, slots=True)
class CandidateDetails:
    """One candidate with its proposal and every evaluation of its program."""

    stored: StoredCandidate
    proposal: Proposal | None
    """None where the store has none."""
    making: Provenance
    gain: float | None
    """Speed-up over the first parent in the search; None where either was not timed."""
    evaluations: tuple[StoredEvaluation, ...]
    """Oldest first."""
    verdicts: ProgramVerdicts
    speedup: Speedup | None
    """Over the fastest baseline, by the reported evaluation; None without one."""
    over_seed: OverSeed | None


def portrait(store: Store, name: str) -> CandidateDetails:
    """Return all facts on a candidate, given by id or beginning of one. Raises `StoreError`."""
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

    With `everyone` return all its ancestors instead, those that only inspired too, in the order of their steps. Raises
    `StoreError` if no candidate, or several, have an id that begins with the name.
    """
    wanted = store.candidate(name).candidate.id
    if everyone:
        family = ancestors(store, wanted, inspirations=True) | {wanted}
        ids = sorted(family, key=lambda member: store.candidate(member).born)
    else:
        ids = main_line(store, wanted)
    return [_lineage_step(store, member) for member in ids]


def _lineage_step(store: Store, name: str) -> LineageStep:
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
        speedup=_search_speedup(verdicts),
        gain=_gain(store, proposal, verdicts),
        predicted=proposal.predicted_speedup if proposal else None,
        making=making(store, proposal) if proposal else Provenance(),
        status=verdicts.failure.status.value if verdicts.failure else "ok" if verdicts.search else "not judged",
        holdout=verdicts.holdout.value,
    )


def _gain(store: Store, proposal: Proposal | None, verdicts: ProgramVerdicts) -> float | None:
    if proposal is None or not proposal.parents:
        return None
    speedup = _search_speedup(verdicts)
    before = _search_speedup(verdicts_of(store, store.candidate(proposal.parents[0]).program_hash))
    return speedup / before if speedup and before else None


def _search_speedup(verdicts: ProgramVerdicts) -> float | None:
    evaluation = verdicts.of_kind(MeasurementKind.SEARCH)
    return combined_speedup(evaluation.timings).value if evaluation else None
