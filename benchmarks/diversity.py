"""Ablation of selectors and champions on recorded landscapes: `python benchmarks/diversity.py [--seeds 5]`.

The islands, their selectors, migrations and resets are those of a search; compilers and judges are left out. A change
moves one gene of the first parent, a crossover takes each gene from one of two. A landscape gives the speed-up of every
point on each workload:

* `gemm`: a recorded Triton matrix product on two shapes;
* `nk`: rugged landscapes (Kauffman's NK), half of a workload its own; `apart`: all of it, so that none is good on all;
* `trap`: as `nk`, and on the workloads' mean each block of genes leads away from its best;
* `special`: as a weak `nk`, and a block of genes for each workload makes it faster, and all others slower until it is
  complete. The mean leads away from specialists: by construction, the case that champions are meant for.

Area: mean gap of the best so far to the best point, in percent of its speed-up, over all evaluations; end: the last
such gap. The champions' gap is that of the geometric mean over workloads of the fastest point for each.
"""

import argparse
import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import cast

import numpy as np
from tuning_tables import TABLES, read_tables

from archive.grid import GridArchive
from evokernel.protocols import Operator, Selector
from evokernel.records.candidate import Candidate, Proposal
from evokernel.records.evaluation import Evaluation, EvaluationKey, Fidelity, Mode, Stage, Status
from evokernel.records.fitness import Elite, elite_of
from evokernel.records.step import OperatorKind, Selection, StepResult
from evokernel.records.timing import Timing, Verdict
from evokernel.rng import stream
from islands.archipelago import Archipelago, ArchipelagoSettings
from islands.elite_selectors import ExploreSelector, RankSelector, TournamentSelector
from islands.island import Island
from islands.topology import ring
from islands.workload_selectors import LexicaseSelector

Point = tuple[int, ...]
KEY = EvaluationKey("", "", "", "", "1", Mode.WORKER, Fidelity.QUICK)
RULES = ArchipelagoSettings(migrate_every=20, reset_after=120)
GENES, WORKLOADS, NEIGHBOURS = 14, 4, 4


@dataclass(frozen=True)
class Landscape:
    """The logarithm of the speed-up of every point, by workload."""

    name: str
    choices: tuple[int, ...]
    """Number of values of each gene."""
    table: Mapping[Point, tuple[float, ...] | None]
    """Natural logarithms of speed-ups; None for a point that fails."""
    start: Point

    @property
    def workloads(self) -> int:
        """Number of workloads."""
        return len(self.table[self.start] or ())

    @cached_property
    def best(self) -> float:
        """The best mean over workloads."""
        return max(float(np.mean(each)) for each in self.table.values() if each)

    @cached_property
    def champions(self) -> float:
        """The mean over workloads of the best for each."""
        return float(np.mean(np.max([each for each in self.table.values() if each], axis=0)))


@cache
def landscape(kind: str, seed: int) -> Landscape:
    """Return the landscape of a kind; each seed has its own, but for the recorded table."""
    if kind == "gemm":
        tables = read_tables(TABLES / "gemm_h200.json")
        points = list(itertools.product(*(range(len(each)) for each in tables[0].choices.values())))
        columns = [[us and -math.log(us) for us in table.us.values()] for table in tables]
        rows = [tuple(row) if all(row) else None for row in zip(*columns, strict=True)]
        table = dict(zip(points, rows, strict=True))
        return Landscape(kind, tuple(map(len, tables[0].choices.values())), table, next(p for p in points if table[p]))
    rng = np.random.default_rng(seed)
    points = list(itertools.product(range(2), repeat=GENES))
    genes = np.array(points)
    shared, *own = (nk(genes, rng) for _ in range(1 + WORKLOADS))
    common = 0.0 if kind == "apart" else math.sqrt(0.5)
    values = np.stack([common * shared + math.sqrt(1 - common**2) * each for each in own], axis=1)
    if kind == "trap":
        ones = genes[:, :12].reshape(len(points), 3, 4).sum(axis=2)
        values += 0.5 * np.where(ones == 4, 4.5, 3 - ones).sum(axis=1, keepdims=True)
    if kind == "special":
        done = genes[:, :12].reshape(len(points), WORKLOADS, 3).sum(axis=2)
        cost = np.where(done < 3, 0.15 * done, 0.0)
        values = 0.3 * values + np.where(done == 3, 1.0, 0.3 * done) + cost - cost.sum(axis=1, keepdims=True)
    order = np.argsort(values.mean(axis=1))
    return Landscape(
        kind,
        (2,) * GENES,
        {point: tuple(row) for point, row in zip(points, values.tolist(), strict=True)},
        points[int(order[len(order) // 4])],
    )


def nk(genes: "np.ndarray[tuple[int, int], np.dtype[np.int64]]", rng: np.random.Generator) -> "np.ndarray":
    """Return the values of all points on an NK landscape, standardised."""
    total = np.zeros(len(genes))
    for gene in range(GENES):
        others = rng.choice([each for each in range(GENES) if each != gene], size=NEIGHBOURS, replace=False)
        code = genes[:, [gene, *others]] @ (2 ** np.arange(NEIGHBOURS + 1))
        total += rng.random(2 ** (NEIGHBOURS + 1))[code]
    standard: np.ndarray = (total - total.mean()) / total.std()
    return standard


def source_of(point: Point) -> str:
    return f"// {' '.join(map(str, point))}\n"


def point_of(elite: Elite) -> Point:
    return tuple(map(int, elite.candidate.source[3:].split()))


class Change:
    """Moves one gene to another value."""

    name = "change"
    parents = 1
    kind = OperatorKind.RULE

    def supports(self, language: str) -> bool:
        return True

    def children(self, parents: Sequence[Elite], choices: Sequence[int]) -> list[Point]:
        point = point_of(parents[0])
        return [
            (*point[:gene], value, *point[gene + 1 :])
            for gene, count in enumerate(choices)
            for value in range(count)
            if value != point[gene] and (count == 2 or abs(value - point[gene]) == 1)
        ]


class Cross(Change):
    """Takes each gene from one of two parents."""

    name = "cross"
    parents = 2
    kind = OperatorKind.CROSSOVER

    def suits(self, first: Elite, second: Elite, *, known: Sequence[str]) -> bool:
        return sum(a != b for a, b in zip(point_of(first), point_of(second), strict=True)) > 1

    def children(self, parents: Sequence[Elite], choices: Sequence[int]) -> list[Point]:
        one, other = map(point_of, parents)
        if sum(a != b for a, b in zip(one, other, strict=True)) > 6:
            mixes = stream(0, hash((one, other)) % 2**32, "mix").random((64, len(one))) < 0.5
            return [tuple(b if m else a for a, b, m in zip(one, other, mix, strict=True)) for mix in mixes]
        return list(itertools.product(*(sorted({a, b}) for a, b in zip(one, other, strict=True))))


OPERATORS: dict[str, Change] = {"change": Change(), "cross": Cross()}


class WithChampions:
    """A selector by fitness that is offered the champions, too."""

    by_workload = True

    def __init__(self, inner: Selector) -> None:
        self.select = inner.select


@dataclass(frozen=True)
class Arm:
    """The policies of a run."""

    selectors: Sequence[Selector]
    """Of the three islands."""
    rules: ArchipelagoSettings = RULES
    """Migrations and resets."""


def arms() -> dict[str, Arm]:
    """Return the arms by name, the one without first."""
    usual: list[Selector] = [RankSelector(0.35), ExploreSelector(0.2), TournamentSelector(0.5)]
    lexicase = LexicaseSelector(0.35)
    return {
        "by fitness": Arm(usual),
        "with champions": Arm([WithChampions(each) for each in usual]),
        "one lexicase": Arm([usual[0], lexicase, usual[2]]),
        "all lexicase": Arm([lexicase] * 3),
    }


@dataclass(frozen=True)
class Outcome:
    """The figures of one run."""

    figures: tuple[float, ...]
    """Area, champions' area, end, champions' end, in percent."""
    points: frozenset[Point]
    """The points that were evaluated."""


def search(arm: Arm, land: Landscape, seed: int, evaluations: int) -> Outcome:
    """Search with one proposal at a time and return its figures."""
    archipelago = arm_islands(arm, land, seed)
    state, gaps, tried = archipelago.fresh(), list[tuple[float, float]](), set[Point]()
    best, leaders, step = -math.inf, np.full(land.workloads, -math.inf), 0
    while len(tried) < evaluations:
        chosen = archipelago.selector.select(step, state) if step else None
        if step and chosen is None:
            break
        point = land.start if chosen is None else child(chosen, land, state.history.proposed, seed)
        archipelago.tell(result_of(step, chosen, point, land), state)
        step += 1
        if point is None:
            continue
        tried.add(point)
        if row := land.table[point]:
            best, leaders = max(best, float(np.mean(row))), np.maximum(leaders, row)
        gaps.append((land.best - best, land.champions - float(np.mean(leaders))))
    percent = 100 * (1 - np.exp(-np.array(gaps)))
    return Outcome((*percent.mean(axis=0), *percent[-1]), frozenset(tried))


def arm_islands(arm: Arm, land: Landscape, seed: int) -> Archipelago:
    """Return the islands of an arm: three in a ring, niches by the sums of two groups of genes."""
    axes = {}
    for name, group in groups(land.choices).items():
        middle = (sum(land.choices[gene] for gene in group) - len(group)) / 2
        axes[name] = (middle, middle + 1)
    islands = [
        Island(f"i{number}", {"change": 0.75, "cross": 0.25}, GridArchive(axes), selector)
        for number, selector in enumerate(arm.selectors)
    ]
    graph = ring([island.name for island in islands])
    operators = cast(dict[str, Operator], OPERATORS)
    return Archipelago(islands, graph, operators=operators, seed=seed, rules=arm.rules)


def groups(choices: Sequence[int]) -> dict[str, range]:
    """Return the genes that make each descriptor."""
    third = len(choices) // 3
    return {f"d{number}": range(number * third, (number + 1) * third) for number in range(2)}


def child(chosen: Selection, land: Landscape, known: Collection[str], seed: int) -> Point | None:
    """Return a new point of the operator for the parents; None where none is left."""
    children = OPERATORS[chosen.operator].children(chosen.parents, land.choices)
    left = [each for each in children if Candidate(source_of(each), "cpp").id not in known]
    return left[int(stream(seed, chosen.step, "child").integers(len(left)))] if left else None


def result_of(step: int, chosen: Selection | None, point: Point | None, land: Landscape) -> StepResult:
    """Return the result of a step: the seed's where nothing was chosen; without a candidate where there is no point."""
    island, operator = (chosen.island, chosen.operator) if chosen else ("*", "seed")
    parents = tuple(each.candidate.id for each in chosen.parents) if chosen else ()
    if point is None:
        return StepResult(step, None, step, island, operator, parents, None)
    candidate, descriptor = Candidate(source_of(point), "cpp"), {}
    for name, group in groups(land.choices).items():
        descriptor[name] = float(sum(point[gene] for gene in group))
    proposal = Proposal(candidate, step, island, operator, step, parents=parents, rationale=f"{operator}: {point}")
    evaluation, name = judged(candidate, land.table[point], descriptor), candidate.id
    elite = elite_of(candidate, evaluation, seq=step, program_hash=name, skeleton=name)
    return StepResult(step, proposal, step, island, operator, parents, evaluation, name, name, elite)


def judged(candidate: Candidate, row: tuple[float, ...] | None, descriptor: Mapping[str, float]) -> Evaluation:
    """Return the evaluation of a point."""
    if row is None:
        return Evaluation(KEY, candidate.id, Status.COMPILE_ERROR, Stage.COMPILE)
    timings = tuple(
        Timing(f"w{number}", "torch", 1.0, math.exp(-value), 1.0, value, 1e-6, 9, Verdict.FASTER)
        for number, value in enumerate(row)
    )
    return Evaluation(KEY, candidate.id, Status.OK, Stage.QUICK, timings, descriptor=descriptor)


def report(seeds: Sequence[int], evaluations: int, kinds: Sequence[str], names: Sequence[str]) -> Iterator[str]:
    """Yield a row for each landscape and arm: the first as it is, the others as differences from it, seed by seed."""
    yield "| landscape | arm | area | champions' area | end | champions' end | points in common |"
    yield "|---|---|---|---|---|---|---|"
    for kind in kinds:
        first: list[Outcome] = []
        for name in names:
            found = [search(arms()[name], landscape(kind, seed), seed, evaluations) for seed in seeds]
            figures = np.array([each.figures for each in found])
            if first:
                figures -= np.array([each.figures for each in first])
            first = first or found
            same = np.mean([len(a.points & b.points) / len(a.points) for a, b in zip(first, found, strict=True)])
            ends = 1.96 * figures.std(axis=0, ddof=1) / math.sqrt(len(seeds))
            sign = "+" if found is not first else ""
            cells = [f"{mean:{sign}.1f} ± {half:.1f}" for mean, half in zip(figures.mean(axis=0), ends, strict=True)]
            yield f"| {kind} | {name} | {' | '.join(cells)} | {same:.0%} |"


def main() -> None:
    """Run every arm and print its figures: mean and standard deviation over the seeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", default=["gemm", "nk", "apart", "trap", "special"])
    parser.add_argument(
        "--arms", nargs="*", default=list(arms()), choices=list(arms()), help="the first is compared with"
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--evaluations", type=int, default=400)
    given = parser.parse_args()
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    for line in report(seeds, given.evaluations, given.kinds, given.arms):
        print(line, flush=True)


if __name__ == "__main__":
    main()
