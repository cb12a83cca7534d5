"""Comparison of runs of one task: results, costs, and differences between their best kernels."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from archive.follower import read_account
from archive.identity import RunIdentity
from archive.sessions import SpentBudget
from archive.store import Store
from archive.views.effort import device_seconds
from archive.views.setting_changes import edits_of
from evokernel.config.run import RunConfig, flat_settings
from evokernel.errors import StoreError
from evokernel.records.evaluation import Evaluation
from evokernel.records.timing import Speedup, combined_speedup
from evokernel.report.best import BestKernel, find_best, verdicts_of
from evokernel.report.points import Point, leads, points_of
from evokernel.report.status import RunFacts, run_facts
from evokernel.report.verdicts import MeasurementKind, quotient

OWN_SHARE = 0.9
"""Share of its own best speed-up that a run must reach for the first level."""
_NO_SETTINGS = ("store", "task")  # a copy of a project has another path, and its task the same hash


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One run of a comparison."""

    name: str
    """Short name of the store."""
    run: RunFacts
    identity: RunIdentity
    spent: SpentBudget
    judged: int
    """Number of judged candidates, without those that a fork copied."""
    correct: int
    """Number of right ones among `judged`."""
    device_s: float
    """Time on the device, in s."""
    best: BestKernel | None
    search: Evaluation | None
    """Search evaluation of the best kernel."""
    leaders: tuple[Point, ...]
    """Leaders by present knowledge: a kernel that was found wrong later is left out."""
    settings: Mapping[str, Any]
    """Values of the config by dotted name."""
    given: frozenset[str]
    """Names of the settings that are not at their defaults."""
    edited: int
    """Number of edits of the config between sessions."""

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
    """A speed-up, and when each run reached it."""

    name: str
    """In words; empty for a level that the user asked for."""
    speedups: tuple[float | None, ...]
    """Goal of each run; None where it has none."""
    reached: tuple[Point | None, ...]
    """First leader of each run with that speed-up; None where it was not reached."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Speed-up of the best of one run over the best of another."""

    one: str
    """Name of the run that seems faster."""
    other: str
    """Name of the run it is compared with."""
    kind: MeasurementKind
    """Kind of both evaluations."""
    over: str
    """Common baseline; empty where all are common."""
    ratio: Speedup | None
    """With the 95 % interval that both intervals allow; None where they have no common baseline."""
    reason: str = ""
    """Reason why `ratio` is None; else empty."""

    @property
    def told_apart(self) -> bool:
        """True where the 95 % interval excludes 1."""
        return self.ratio is not None and not self.ratio.low <= 1 <= self.ratio.high


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and range of a quantity over the runs of a group."""

    median: float
    low: float
    high: float
    count: int
    """Number of runs that have the quantity."""


@dataclass(frozen=True, slots=True)
class SeedGroup:
    """Runs that differ in nothing but their seed."""

    names: tuple[str, ...]
    """Of the runs."""
    seeds: tuple[int, ...]
    """Of the runs, in the same order."""
    spreads: Mapping[str, Spread]
    """By quantity: `speedup`, `judged`, `seconds`, ..."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Runs of one task beside each other."""

    task: str
    sides: tuple[ComparedRun, ...]
    notes: tuple[str, ...]
    """Obstacles and cautions, in words."""
    comparable: bool
    """True where speed-ups can be compared."""
    levels: tuple[SpeedupMilestone, ...]
    """Speed-ups, and when each run reached them."""
    differing: Mapping[str, tuple[Any, ...]]
    """Settings that differ, by name: a value for each run."""
    groups: tuple[SeedGroup, ...]
    """Runs that differ in nothing but their seed."""
    differences: tuple[Difference, ...]
    """Best of the fastest run against each other best; empty where not comparable."""

    @property
    def differing_given(self) -> dict[str, tuple[Any, ...]]:
        """The settings among `differing` that somebody set, without the seed.

        An island or a model that not all runs have is one difference of `islands` or `models`, not one for each of its
        settings.
        """
        shared = {key for key in self.differing if key.count(".") < 2 or all(_part(key, side) for side in self.sides)}
        return {
            key: values
            for key, values in self.differing.items()
            if key in shared and key != "seed" and any(key in side.given for side in self.sides)
        }


def compare(stores: Sequence[Store], *, levels: Sequence[float] = ()) -> Comparison:
    """Compare runs of one task; `levels` are speed-ups for which to say when each run had reached them.

    Raises `StoreError` if a store is of another task, holds no run, or is named twice.
    """
    names = names_of([store.database.path for store in stores])
    sides = tuple(_side(store, name) for store, name in zip(stores, names, strict=True))
    tasks = {side.identity.task: side.name for side in sides}
    if len(tasks) > 1 and len({side.identity.task_hash for side in sides}) > 1:
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


def _part(key: str, side: ComparedRun) -> bool:
    """Say whether a run has the island, model or other part that a setting belongs to."""
    part = ".".join(key.split(".")[:2]) + "."
    return any(name.startswith(part) for name in side.settings)


def names_of(paths: Sequence[Path]) -> list[str]:
    """Return a name for each store: the stem of its file, or the path where stems are equal. Raises `StoreError`."""
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
        raw = yaml.safe_load(store.meta("config") or "") or {}
        settings = flat_settings(raw)
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
            given=_given(raw, settings, store.database.path.resolve()),
            edited=len(edits_of(store)),
        )


def _given(raw: Mapping[str, Any], settings: Mapping[str, Any], store: Path) -> frozenset[str]:
    """Return the names of settings that are not at their defaults; all of a config that this release cannot read.

    `plugins` stands in the store where a plug-in is named: left out it is the config's folder, where the task lies, or
    the store, or the store's folder.
    """
    try:
        config = RunConfig.model_validate(raw)
    except ValueError:
        return frozenset(settings)
    given = config.model_dump(mode="json", exclude_defaults=True)
    if Path(config.plugins) in (Path(config.task).parent, store.parent, store.parent.parent):
        given.pop("plugins", None)
    return frozenset(flat_settings({"islands": [], **given})) | {"islands"}


def _obstacles(sides: Sequence[ComparedRun]) -> Iterator[str]:
    """Yield the reasons why speed-ups cannot be compared."""
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
    for side in sides:
        if side.best and side.best.contender_leads and (led := side.best.contender_speedup):
            yield f"{side.name}: {side.best.contender} leads its search with {led.value:.3g}x, not measured anew yet"
    if edited := [side.name for side in sides if side.edited]:
        yield f"edited between sessions: {', '.join(edited)}; the settings are those of the last session"
    if nothing := [side.name for side in sides if side.best is None]:
        yield f"without a correct kernel: {', '.join(nothing)}"


def _by_value(sides: Sequence[ComparedRun], values: Sequence[str | None]) -> str:
    """Return the runs of each value as text, empty where all values are equal; None is left out."""
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
    """Return a common baseline (empty for all of them) and the speed-up of each over it; None without one."""
    anchors = [{(t.workload, t.baseline, t.weight) for t in each.timings} for each in (one, other)]
    if anchors[0] == anchors[1]:
        return "", combined_speedup(one.timings), combined_speedup(other.timings)
    shared = [name for name in one.panel if name in other.panel]
    if not shared:
        return None
    name = min(shared, key=lambda name: one.panel[name].value)  # the fastest of them
    return name, one.panel[name], other.panel[name]
