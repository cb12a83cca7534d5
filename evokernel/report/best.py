"""The best kernel of a run and what is proved of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from archive.candidate_tables import measured_finally, seeds
from archive.store import Store
from evokernel.errors import StoreError
from evokernel.records.candidate import SEED, Candidate
from evokernel.records.evaluation import Evaluation, Speedup, combined_speedup, floor_share
from evokernel.report.verdicts import Holdout, MeasurementKind, ProgramVerdicts, over_baselines, quotient

BEST = "best"


@dataclass(frozen=True, slots=True)
class OverSeed:
    """How much faster than the seed. `kind` is that of both evaluations, so that like is compared with like.

    `mode` is how the seed was run.
    """

    candidate: str
    kind: MeasurementKind
    mode: str
    speedup: Speedup


@dataclass(frozen=True, slots=True)
class BestKernel:
    """The kernel to take home.

    `speedup` is against the fastest baseline of each workload, `baselines` against each one; both come from
    `evaluation`, which is of `kind`. `contender` is a fitter candidate that was not measured on held-out inputs yet.
    """

    candidate: Candidate
    kind: MeasurementKind
    evaluation: Evaluation
    holdout: Holdout
    speedup: Speedup
    baselines: Mapping[str, Speedup]
    over_seed: OverSeed | None
    floor_share: float | None
    contender: str | None

    @property
    def is_seed(self) -> bool:
        """Whether it is what the search began with: nothing faster was found."""
        return self.over_seed is not None and self.over_seed.candidate == self.candidate.id


@dataclass(frozen=True, slots=True)
class _Entry:
    candidate: Candidate
    verdicts: ProgramVerdicts


def verdicts_of(store: Store, program_hash: str) -> ProgramVerdicts:
    """Return what the evaluations of one program say; those a fork brought from elsewhere say nothing of this run."""
    identity = store.identity()
    evaluations = [stored.evaluation for stored in store.evaluations_of(program_hash)]
    if identity is not None:
        evaluations = [e for e in evaluations if identity.counts(e.key)]
    return ProgramVerdicts.of(evaluations)


def find_best(store: Store) -> BestKernel | None:
    """Return the best kernel: a crowned one where there is one, else the fittest; None where nothing is right yet.

    Among crowned ones fitness decides and the final numbers are only reported: choosing by them would make them
    look better than they are. A crowned seed counts only where nothing fitter is right.
    """
    ranked = store.best(1)
    fittest = _entry(store, ranked[0].candidate.candidate.id) if ranked else None
    unbeaten = fittest is not None and fittest.verdicts.holdout is Holdout.PASSED  # crowned, or an unbeaten seed
    chosen = fittest if unbeaten else _fittest(_crowned(store)) or fittest
    if chosen is None or chosen.verdicts.reported is None:
        return None
    evaluation = chosen.verdicts.reported
    return BestKernel(
        candidate=chosen.candidate,
        kind=chosen.verdicts.kind,
        evaluation=evaluation,
        holdout=chosen.verdicts.holdout,
        speedup=combined_speedup(evaluation.timings),
        baselines=over_baselines(evaluation),
        over_seed=over_seed(store, chosen.verdicts),
        floor_share=floor_share(evaluation.timings),
        contender=_contender(chosen, fittest),
    )


def candidate_id(store: Store, name: str) -> str:
    """Return the id meant by an id, the beginning of one, `best` or `seed`. Raises `StoreError`."""
    if name == BEST:
        best = find_best(store)
        if best is None:
            raise StoreError(f"{store.database.path} holds no correct kernel yet")
        return best.candidate.id
    if name == SEED:
        known = seeds(store)
        if not known:
            raise StoreError(f"{store.database.path} holds no seed yet")
        return known[0]
    return store.candidate(name).candidate.id


def over_seed(store: Store, verdicts: ProgramVerdicts) -> OverSeed | None:
    """Compare a program with the fastest seed, final with final where both exist, else search with search."""
    seed = _fittest(_entry(store, name) for name in seeds(store))
    if seed is None:
        return None
    for kind in (MeasurementKind.FINAL, MeasurementKind.SEARCH):
        ours, theirs = verdicts.of_kind(kind), seed.verdicts.of_kind(kind)
        if ours is not None and theirs is not None:
            ratio = quotient(combined_speedup(ours.timings), combined_speedup(theirs.timings))
            return OverSeed(seed.candidate.id, kind, theirs.key.mode.value, ratio)
    return None


def _entry(store: Store, name: str) -> _Entry:
    stored = store.candidate(name)
    return _Entry(stored.candidate, verdicts_of(store, stored.program_hash))


def _crowned(store: Store) -> list[_Entry]:
    barred = set(seeds(store))
    entries = [_entry(store, name) for name in measured_finally(store) if name not in barred]
    return [entry for entry in entries if entry.verdicts.holdout is Holdout.PASSED]


def _fittest(entries: Iterable[_Entry]) -> _Entry | None:
    known = [(entry.verdicts.fitness, entry) for entry in entries]
    fit = [(fitness, entry) for fitness, entry in known if fitness is not None]
    return max(fit, key=lambda item: item[0])[1] if fit else None


def _contender(chosen: _Entry, fittest: _Entry | None) -> str | None:
    if (
        fittest is None
        or fittest.candidate.id == chosen.candidate.id
        or fittest.verdicts.holdout is not Holdout.PENDING
    ):
        return None
    return fittest.candidate.id
