"""Several runs of one task beside each other: what each found, what that took, and whether the bests differ."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from archive.effort import device_seconds
from archive.follower import read_account
from archive.identity import RunIdentity
from archive.sessions import SpentBudget
from archive.setting_changes import edits_of
from archive.store import Store
from evokernel.config.run import flat_settings
from evokernel.errors import StoreError
from evokernel.records.evaluation import Evaluation, Speedup, combined_speedup
from evokernel.report.best import BestKernel, find_best, verdicts_of
from evokernel.report.points import Point, leads, points_of
from evokernel.report.status import RunFacts, run_facts
from evokernel.report.verdicts import MeasurementKind, quotient

OWN_SHARE = 0.9
"""How near to its own best a run must have come, to say how soon it was there."""
_NO_SETTINGS = ("store",)


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One run of a comparison. `leaders` are by what is known now; one that was found wrong later is not among them.

    `search` is the evaluation of its best kernel in the search, beside the one that `best` reports.
    """

    name: str
    run: RunFacts
    identity: RunIdentity
    spent: SpentBudget
    judged: int
    correct: int
    device_s: float
    best: BestKernel | None
    search: Evaluation | None
    leaders: tuple[Point, ...]
    settings: Mapping[str, Any]
    edited: int

    @property
    def seed(self) -> int:
        """The seed of the search."""
        return self.identity.seed

    def of_kind(self, kind: MeasurementKind) -> Evaluation | None:
        """Return the evaluation of its best kernel that is of a kind, or None."""
        if kind is MeasurementKind.SEARCH:
            return self.search
        return self.best.evaluation if self.best is not None and self.best.kind is kind else None

    def reached(self, speedup: float) -> Point | None:
        """Return the first leader with at least this speed-up, or None."""
        return next((leader for leader in self.leaders if (leader.speedup or 0.0) >= speedup), None)


@dataclass(frozen=True, slots=True)
class SpeedupMilestone:
    """A speed-up, for each run, and the first leader of that run that had it; None where it has none."""

    name: str
    speedups: tuple[float | None, ...]
    reached: tuple[Point | None, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """How much faster the best of one run is than that of another, over what both were measured against.

    `ratio` has the 95 % interval that both intervals allow; it is None, and `reason` says why, where nothing can be
    said.
    """

    one: str
    other: str
    kind: MeasurementKind
    over: str
    ratio: Speedup | None
    reason: str = ""

    @property
    def told_apart(self) -> bool:
        """Whether the interval leaves no doubt which is faster."""
        return self.ratio is not None and not self.ratio.low <= 1 <= self.ratio.high


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and range of a quantity over the runs of a group, and how many of them have it."""

    median: float
    low: float
    high: float
    count: int


@dataclass(frozen=True, slots=True)
class SeedGroup:
    """Runs that differ in nothing but their seed. `spreads` are by quantity: `speedup`, `judged`, `seconds`, ..."""

    names: tuple[str, ...]
    seeds: tuple[int, ...]
    spreads: Mapping[str, Spread]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Runs of one task. `differing` has the settings that are not the same in all, a value for each run.

    `notes` say what cannot be compared, or only with care; `comparable` is whether speed-ups can be at all.
    """

    task: str
    sides: tuple[ComparedRun, ...]
    notes: tuple[str, ...]
    comparable: bool
    levels: tuple[SpeedupMilestone, ...]
    differing: Mapping[str, tuple[Any, ...]]
    groups: tuple[SeedGroup, ...]
    differences: tuple[Difference, ...]


def compare(stores: Sequence[Store], *, levels: Sequence[float] = ()) -> Comparison:
    """Compare runs of one task; `levels` are speed-ups for which to say when each run had reached them.

    Raises:
        StoreError: a store is of another task, or holds no run, or is named twice.
    """
    names = names_of([store.database.path for store in stores])
    sides = tuple(_side(store, name) for store, name in zip(stores, names, strict=True))
    tasks = {side.identity.task: side.name for side in sides}
    if len(tasks) > 1:
        said = ", ".join(f"{name} of {task}" for task, name in tasks.items())
        raise StoreError(f"only runs of one task can be compared, and these are of several: {said}")
    obstacles, cautions = list(_obstacles(sides)), list(_cautions(sides))
    kind = (
        MeasurementKind.FINAL
        if all(side.of_kind(MeasurementKind.FINAL) for side in sides if side.best)
        else MeasurementKind.SEARCH
    )
    return Comparison(
        task=sides[0].identity.task,
        sides=sides,
        notes=(*obstacles, *cautions),
        comparable=not obstacles,
        levels=tuple(_levels(sides, levels, comparable=not obstacles)),
        differing=_differing(sides),
        groups=tuple(_groups(sides)),
        differences=() if obstacles else tuple(_differences(sides, kind)),
    )


def names_of(paths: Sequence[Path]) -> list[str]:
    """Return a short name for each store: of its file, or the whole path where that is not clear. May raise."""
    twice = next((path for path in paths if sum(path.resolve() == other.resolve() for other in paths) > 1), None)
    if twice is not None:
        raise StoreError(f"{twice} is named twice; a run is compared with others")
    stems = [path.stem for path in paths]
    return stems if len(set(stems)) == len(stems) else [str(path) for path in paths]


def _side(store: Store, name: str) -> ComparedRun:
    with store.database.snapshot():
        identity, best = store.identity(), find_best(store)
        if identity is None:
            raise StoreError(f"{store.database.path} holds no run yet")
        account = read_account(store)
        points = points_of(store)
        settings = flat_settings(yaml.safe_load(store.meta("config") or "") or {})
        return ComparedRun(
            name=name,
            run=run_facts(store),
            identity=identity,
            spent=store.spent(),
            judged=account.evaluations,
            correct=account.correct - account.copied_correct,
            device_s=device_seconds(store),
            best=best,
            search=verdicts_of(store, best.evaluation.key.program_hash).search if best else None,
            leaders=tuple(points[place] for place in leads(points)),
            settings={key: value for key, value in settings.items() if key not in _NO_SETTINGS},
            edited=len(edits_of(store)),
        )


def _obstacles(sides: Sequence[ComparedRun]) -> Iterator[str]:
    """Say what keeps speed-ups from being compared."""
    if parts := _by_value(sides, [side.identity.device for side in sides]):
        yield f"measured on different devices ({parts}): each speed-up is over the baselines on its own device"
    hashes = [side.identity.task_hash for side in sides]
    if len(set(hashes)) > 1:
        first, other = sides[0], next(side for side in sides if side.identity.task_hash != hashes[0])
        old, new = (flat_settings(side.identity.task_spec) for side in (first, other))
        keys = [key for key in sorted(old.keys() | new.keys()) if key and old.get(key) != new.get(key)]
        what = ", ".join(keys) if keys else "its reference, workloads, tolerances or baselines"
        yield f"the task, or how it is judged, is not the same in {first.name} and {other.name} ({what})"
    versions = [side.best.evaluation.key.evaluator_version if side.best else None for side in sides]
    if parts := _by_value(sides, versions):
        yield f"judged by different versions of the evaluator ({parts})"


def _cautions(sides: Sequence[ComparedRun]) -> Iterator[str]:
    if parts := _by_value(sides, [side.identity.environment for side in sides]):
        yield f"compiled and measured in different environments ({parts}): differences may come from those"
    if len({side.identity.evokernel_version for side in sides}) > 1:
        yield "begun with different versions of evokernel"
    kinds = [side.best.kind for side in sides if side.best]
    if len(set(kinds)) > 1:
        late = ", ".join(side.name for side in sides if side.best and side.best.kind is MeasurementKind.SEARCH)
        yield f"not measured anew yet: {late}; bests are compared by the numbers that selected them, which flatter"
    if edited := [side.name for side in sides if side.edited]:
        yield f"edited between sessions: {', '.join(edited)}; the settings are those of the last session"
    if nothing := [side.name for side in sides if side.best is None]:
        yield f"without a correct kernel: {', '.join(nothing)}"


def _by_value(sides: Sequence[ComparedRun], values: Sequence[str | None]) -> str:
    """Return which runs have which value, nothing where all have the same; None is left out."""
    found: dict[str, list[str]] = {}
    for side, value in zip(sides, values, strict=True):
        if value is not None:
            found.setdefault(value, []).append(side.name)
    return "; ".join(f"{value}: {', '.join(names)}" for value, names in found.items()) if len(found) > 1 else ""


def _levels(sides: Sequence[ComparedRun], asked: Sequence[float], *, comparable: bool) -> Iterator[SpeedupMilestone]:
    bests = [side.leaders[-1].speedup if side.leaders else None for side in sides]
    own = [None if best is None else OWN_SHARE * best for best in bests]
    yield _level(f"{OWN_SHARE:.0%} of its own best", own, sides)
    known = [best for best in bests if best is not None]
    if comparable and len(known) > 1:
        yield _level("the best of the weakest", [min(known)] * len(sides), sides)
    for speedup in asked:
        yield _level("", [speedup] * len(sides), sides)


def _level(name: str, speedups: Sequence[float | None], sides: Sequence[ComparedRun]) -> SpeedupMilestone:
    reached = (None if s is None else side.reached(s) for s, side in zip(speedups, sides, strict=True))
    return SpeedupMilestone(name, tuple(speedups), tuple(reached))


def _differing(sides: Sequence[ComparedRun]) -> dict[str, tuple[Any, ...]]:
    keys = dict.fromkeys(key for side in sides for key in side.settings)
    values = {key: tuple(side.settings.get(key) for side in sides) for key in keys}
    return {key: row for key, row in values.items() if any(value != row[0] for value in row)}


def _groups(sides: Sequence[ComparedRun]) -> Iterator[SeedGroup]:
    alike: dict[str, list[ComparedRun]] = {}
    for side in sides:
        same = {key: value for key, value in side.settings.items() if key != "seed"}
        same |= {"": [side.identity.task_hash, side.identity.device, side.identity.language]}
        alike.setdefault(json.dumps(same, sort_keys=True), []).append(side)
    for group in alike.values():
        if len(group) > 1:
            spreads = {name: _spread(values) for name, values in _quantities(group).items() if values}
            yield SeedGroup(tuple(side.name for side in group), tuple(side.seed for side in group), spreads)


def _quantities(group: Sequence[ComparedRun]) -> dict[str, list[float]]:
    own = [side.reached(OWN_SHARE * (side.leaders[-1].speedup or 0.0)) if side.leaders else None for side in group]
    return {
        "speedup": [side.best.speedup.value for side in group if side.best],
        "judged": [side.judged for side in group],
        "seconds": [side.spent.seconds for side in group],
        "device_s": [side.device_s for side in group],
        "cost_usd": [side.spent.cost_usd for side in group],
        "evaluations_to_own_share": [leader.evaluations for leader in own if leader],
    }


def _spread(values: Sequence[float]) -> Spread:
    return Spread(median(values), min(values), max(values), len(values))


def _differences(sides: Sequence[ComparedRun], kind: MeasurementKind) -> Iterator[Difference]:
    """Compare the best of the run that seems fastest with that of each other one."""
    measured = [(side, found) for side in sides if (found := side.of_kind(kind)) is not None]
    if not measured:
        return
    first, fastest = max(measured, key=lambda item: combined_speedup(item[1].timings).low)
    for side, found in measured:
        if side is first:
            continue
        common = _common(fastest, found)
        if common is None:
            reason = "they were measured against different baselines"
            yield Difference(first.name, side.name, kind, "", None, reason)
        else:
            over, one, other = common
            yield Difference(first.name, side.name, kind, over, quotient(one, other))


def _common(one: Evaluation, other: Evaluation) -> tuple[str, Speedup, Speedup] | None:
    """Return what both were measured against, and the speed-up of each over it; None where there is nothing."""
    anchors = [{(t.workload, t.baseline, t.weight) for t in each.timings} for each in (one, other)]
    if anchors[0] == anchors[1]:
        return "", combined_speedup(one.timings), combined_speedup(other.timings)
    shared = [name for name in one.panel if name in other.panel]
    if not shared:
        return None
    name = min(shared, key=lambda name: one.panel[name].value)  # the fastest of them
    return name, one.panel[name], other.panel[name]
