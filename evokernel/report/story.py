"""How a candidate came about, and everything known of one."""

from dataclasses import dataclass

from archive.lineage import ancestors, main_line
from archive.records import StoredCandidate, StoredEvaluation
from archive.store import Store
from evokernel.candidate import Proposal
from evokernel.evaluation import Speedup, combined_speedup
from evokernel.report.best import OverSeed, over_seed, verdicts_of
from evokernel.report.verdicts import Kind, Verdicts


@dataclass(frozen=True, slots=True)
class Chapter:
    """One candidate on the way. `speedup` is over the fastest baseline, by search numbers throughout.

    `gain` is its speed-up over its first parent; None where either was not timed.
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
    status: str
    holdout: str


@dataclass(frozen=True, slots=True)
class Portrait:
    """One candidate with its proposal, every evaluation of its program, and its ancestors' number."""

    stored: StoredCandidate
    proposal: Proposal | None
    evaluations: tuple[StoredEvaluation, ...]
    verdicts: Verdicts
    speedup: Speedup | None
    over_seed: OverSeed | None


def portrait(store: Store, name: str) -> Portrait:
    """Return everything known of a candidate, given by id or beginning of one. Raises `StoreError`."""
    stored = store.candidate(name)
    verdicts = verdicts_of(store, stored.program_hash)
    reported = verdicts.reported
    return Portrait(
        stored=stored,
        proposal=store.proposal_of(stored.candidate.id),
        evaluations=tuple(store.evaluations_of(stored.program_hash)),
        verdicts=verdicts,
        speedup=combined_speedup(reported.timings) if reported else None,
        over_seed=over_seed(store, verdicts) if reported else None,
    )


def story(store: Store, name: str, *, everyone: bool = False) -> list[Chapter]:
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


def _chapter(store: Store, name: str) -> Chapter:
    stored, proposal = store.candidate(name), store.proposal_of(name)
    verdicts = verdicts_of(store, stored.program_hash)
    parents = proposal.parents if proposal else ()
    speedup = _searched(verdicts)
    before = _searched(verdicts_of(store, store.candidate(parents[0]).program_hash)) if parents else None
    return Chapter(
        candidate=name,
        step=stored.born,
        operator=proposal.operator if proposal else "",
        island=proposal.island if proposal else "",
        rationale=proposal.rationale if proposal else "",
        parents=parents,
        inspirations=proposal.inspirations if proposal else (),
        origin=stored.origin,
        mode=verdicts.search.key.mode.value if verdicts.search else "",
        speedup=speedup,
        gain=speedup / before if speedup and before else None,
        status=verdicts.failure.status.value if verdicts.failure else "ok" if verdicts.search else "not judged",
        holdout=verdicts.holdout.value,
    )


def _searched(verdicts: Verdicts) -> float | None:
    evaluation = verdicts.of_kind(Kind.SEARCH)
    return combined_speedup(evaluation.timings).value if evaluation else None
