"""The best kernel of a run and the measurements that prove it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields

from archive.store import Store
from archive.views.candidate_tables import measured_finally, seeds
from evokernel.errors import StoreError
from evokernel.records.candidate import SEED, Candidate
from evokernel.records.evaluation import Evaluation
from evokernel.records.timing import Speedup, combined_speedup, floor_share
from evokernel.report.verdicts import (
    Holdout,
    MeasurementKind,
    ProgramVerdicts,
    nowhere_above,
    over_baselines,
    over_torch,
    quotient,
)

BEST = "best"


@dataclass(frozen=True, slots=True)
class OverSeed:
    """Speed-up over the seed."""

    candidate: str
    """Id of the seed."""
    kind: MeasurementKind
    """Kind of both evaluations, so that like is compared with like."""
    mode: str
    """Mode in which the seed ran."""
    speedup: Speedup
    """With its 95 % interval."""


@dataclass(frozen=True, slots=True)
class BestKernel:
    """The kernel to take home."""

    candidate: Candidate
    kind: MeasurementKind
    """Kind of `evaluation`."""
    evaluation: Evaluation
    """The source of all numbers below."""
    holdout: Holdout
    speedup: Speedup
    """Over the fastest baseline of each workload."""
    baselines: Mapping[str, Speedup]
    """Over each baseline, by name, fastest baseline first."""
    over_seed: OverSeed | None
    """None where no evaluations of one kind exist."""
    floor_share: float | None
    """Least possible time divided by the measured one, 0 to 1; None where unknown."""
    contender: str | None
    """Id of a fitter candidate without a final measurement, if any."""
    contender_speedup: Speedup | None
    """That candidate's in the search; None without one."""

    def __repr__(self) -> str:
        names = ", ".join(each.name for each in fields(self))
        return (
            f"BestKernel({self.candidate.id}: {self.speedup}, {self.kind.value}, {self.holdout.value}; fields: {names})"
        )

    @property
    def contender_leads(self) -> bool:
        """True where the interval of the contender begins above that of this kernel."""
        return self.contender_speedup is not None and self.contender_speedup.low > self.speedup.high

    @property
    def to_export(self) -> str:
        """Id of the kernel to take home: the contender where it leads, since an export measures it anew."""
        return self.contender if self.contender and self.contender_leads else self.candidate.id

    @property
    def nowhere_faster(self) -> bool:
        """True where it is slower than torch on every workload, so that an export would refuse it."""
        return nowhere_above(self.evaluation, 1.0)

    @property
    def nowhere_clearly_faster(self) -> bool:
        """True where no interval over torch begins at 1 on any workload, so that an export may refuse it."""
        return all(over_torch(self.evaluation, timing).low < 1.0 for timing in self.evaluation.timings)

    @property
    def is_seed(self) -> bool:
        """True where the search found nothing faster than its seed."""
        return self.over_seed is not None and self.over_seed.candidate == self.candidate.id


@dataclass(frozen=True, slots=True)
class _Entry:
    candidate: Candidate
    verdicts: ProgramVerdicts


def verdicts_of(store: Store, program_hash: str) -> ProgramVerdicts:
    """Return the verdicts on one program; evaluations that do not count for this run are left out."""
    identity = store.identity()
    evaluations = [stored.evaluation for stored in store.evaluations_of(program_hash)]
    if identity is not None:
        evaluations = [e for e in evaluations if identity.counts(e.key)]
    return ProgramVerdicts.of(evaluations)


def best_kernel(store: Store) -> BestKernel:
    """Return the best kernel. Raises `StoreError` where there is none."""
    found = find_best(store)
    if found is None:
        raise StoreError(f"{store.database.path} holds no correct kernel yet, or none that is not banned")
    return found


def find_best(store: Store) -> BestKernel | None:
    """Return the best kernel: the fittest that passed its final measurement, else the fittest; None without any.

    A banned kernel is not the best one.

    Fitness decides and the final numbers are only reported: a choice by them would make them look better than they
    are. A seed that passed counts only where nothing fitter is right.
    """
    ranked = store.best(1)
    fittest = _entry(store, ranked[0].candidate.candidate.id) if ranked else None
    proved = fittest is not None and fittest.verdicts.holdout is Holdout.PASSED  # a seed, too
    chosen = fittest if proved else _fittest(_passed_final(store)) or fittest
    if chosen is None or chosen.verdicts.reported is None:
        return None
    evaluation, contender = chosen.verdicts.reported, _contender(store, chosen, fittest)
    searched = contender.verdicts.search if contender else None
    return BestKernel(
        candidate=chosen.candidate,
        kind=chosen.verdicts.kind,
        evaluation=evaluation,
        holdout=chosen.verdicts.holdout,
        speedup=combined_speedup(evaluation.timings),
        baselines=over_baselines(evaluation),
        over_seed=over_seed(store, chosen.verdicts),
        floor_share=floor_share(evaluation.timings),
        contender=contender.candidate.id if contender else None,
        contender_speedup=combined_speedup(searched.timings) if searched else None,
    )


def candidate_id(store: Store, name: str) -> str:
    """Return the id for an id, the beginning of one, `best` or `seed`. Raises `StoreError`."""
    if name == BEST:
        return best_kernel(store).candidate.id
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


def _passed_final(store: Store) -> list[_Entry]:
    known_seeds = set(seeds(store))
    entries = [_entry(store, name) for name in measured_finally(store) if name not in known_seeds]
    return [entry for entry in entries if entry.verdicts.holdout is Holdout.PASSED]


def _fittest(entries: Iterable[_Entry]) -> _Entry | None:
    known = [(entry.verdicts.fitness, entry) for entry in entries]
    fit = [(fitness, entry) for fitness, entry in known if fitness is not None]
    return max(fit, key=lambda item: item[0])[1] if fit else None


def _contender(store: Store, chosen: _Entry, fittest: _Entry | None) -> _Entry | None:
    """Return a fitter candidate that a search will measure anew; it does not do so with an unbeaten seed."""
    if fittest is None or fittest.verdicts.holdout is not Holdout.PENDING:
        return None
    return None if fittest.candidate.id in {chosen.candidate.id, *seeds(store)[:1]} else fittest
