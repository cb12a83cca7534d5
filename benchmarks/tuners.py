"""Tuners side by side on recorded tables: `python benchmarks/tuners.py [--seeds 50] [--runs FILE]`.

An evaluation is a new point. Every tuner is told the same rule of validity, so no point that it may ask for fails; with
`--untold` none is told, and what cannot run fails. Area: mean gap of the best so far to the table's best over the first
160 evaluations, capped at 100 %; less is better. Six in hand: answers come in the order asked, five asks later.

Ours is the operator `tune` itself. Optuna and kernel_tuner take part where they are installed.
"""

import argparse
import asyncio
import importlib.util
import itertools
import json
import math
import random
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from other_tuners import Optuna, kernel_tuner_order, sampler
from tuning_tables import TABLES, Point, Table, cornered, read_tables

from evokernel.records.candidate import Candidate
from evokernel.records.step import Context, Sibling
from evokernel.source.expressions import evaluate
from evokernel.source.tunables import read_tunables
from evokernel.testing.language import SCALE_TASK
from evokernel.testing.operator import elite
from islands.resources import SHARED
from operators.rules.tune import Tune

EVALUATIONS = 160
CAP = 1.0
STARTS = ("corner", "random")


@dataclass(frozen=True)
class Run:
    """One run of a tuner."""

    tuner: str
    """Its name."""
    table: str
    """Name of the table."""
    start: str
    """`corner` or `random`."""
    seed: int
    """Of the tuner and of the random start."""
    told: bool
    """The tuner knows the rule of validity."""
    in_hand: int
    """Points asked for before the first answer."""


class Tuner(Protocol):
    """A tuner that is asked for points and told their times."""

    def ask(self) -> Point | None:
        """Return a point to measure, or None where none is left."""

    def tell(self, point: Point, log_us: float | None) -> None:
        """Take in the logarithm of a time; None for a point that cannot run."""


class Random:
    """Points in random order."""

    def __init__(self, table: Table, start: Point, seed: int, *, told: bool) -> None:
        points = [point for point in (table.working if told else table.us) if point != start]
        random.Random(seed + 1000).shuffle(points)
        self._waiting = deque([start, *points])

    def ask(self) -> Point | None:
        return self._waiting.popleft() if self._waiting else None

    def tell(self, point: Point, log_us: float | None) -> None:
        return None


class Ours:
    """The operator `tune`, with the answers as siblings; untold, it learns of shared memory what a compiler says."""

    def __init__(self, table: Table, start: Point, seed: int, *, told: bool) -> None:
        self._table, self._seed, self._tune = table, seed, Tune()
        lines = [
            f"{name} = {value}  # tune: {' '.join(map(str, table.choices[name]))}" for name, value in table.named(start)
        ]
        source = "\n".join([*lines, f"# tune-where: {table.rule}" if told else "", ""])
        self._parent = elite(source)
        self._known, self._siblings = set[str](), list[Sibling]()
        self._in_hand: dict[Point, dict[str, int]] = {}

    def ask(self) -> Point | None:
        source = self._parent.candidate.source
        if self._known:
            draft = asyncio.run(self._tune.propose(self._context()))
            if draft is None:
                return None
            source = draft.source
        self._known.add(Candidate(source, "triton").id)
        values = read_tunables(source).values
        point = tuple(values.values())
        self._in_hand[point] = values
        return point

    def tell(self, point: Point, log_us: float | None) -> None:
        values = self._in_hand.pop(point)
        needed = self._table.shared_bytes
        needs = {} if needed is None else {SHARED: float(evaluate(needed, values))}
        limits = {SHARED: float(self._table.shared_limit)} if needs and log_us is None else {}
        self._siblings.append(Sibling(values, None if log_us is None else -log_us, needs, limits))

    def _context(self) -> Context:
        return Context(
            step=len(self._known),
            seed=self._seed,
            island="one",
            task=SCALE_TASK,
            language="triton",
            threads=1,
            parents=(self._parent,),
            siblings=tuple(self._siblings),
            in_hand=tuple(self._in_hand.values()),
            known=frozenset(self._known),
            tried=frozenset(),
            credit={},
            device_sheet={},
        )


def answer_in_order(tuner: Tuner, table: Table, *, in_hand: int) -> list[Point]:
    """Return the points in the order measured, with so many asked for ahead."""
    waiting: deque[Point] = deque()
    order: list[Point] = []
    while len(order) < EVALUATIONS:
        while len(waiting) < in_hand and (point := tuner.ask()) is not None:
            waiting.append(point)
        if not waiting:
            break
        point = waiting.popleft()
        us = table.us[point]
        order.append(point)
        tuner.tell(point, None if us is None else math.log(us))
    return order


OTHERS = {
    "optuna tpe": "optuna",
    "optuna gp": "optuna",
    "simulated_annealing": "kernel_tuner",
    "hybrid_vndx": "kernel_tuner",
    "adaptive_tabu_greywolf": "kernel_tuner",
}
"""Other tuners, with the package that each needs."""
SLOW = ("optuna gp",)
"""One run takes minutes."""


def order_of(run: Run, table: Table) -> list[Point]:
    """Return the points that a run measures, in order."""
    start, told = table.start(run.start, run.seed), run.told
    if OTHERS.get(run.tuner) == "kernel_tuner":
        order: list[Point] = kernel_tuner_order(run.tuner, table, start, seed=run.seed, told=told, most=EVALUATIONS)
        return order
    if OTHERS.get(run.tuner) == "optuna":
        tuner: Tuner = Optuna(sampler(run.tuner, run.seed), table, start, told=told)
    elif run.tuner == "random":
        tuner = Random(table, start, run.seed, told=told)
    else:
        tuner = Ours(table, start, run.seed, told=told)
    return answer_in_order(tuner, table, in_hand=run.in_hand)


def area(table: Table, order: Sequence[Point]) -> float:
    """Return the mean gap of the best so far to the table's best, in percent."""
    found = np.array([math.inf if (us := table.us[point]) is None else us for point in order])
    gaps = np.minimum(np.minimum.accumulate(found) / table.best - 1.0, CAP)
    padded = np.concatenate([gaps, np.full(EVALUATIONS - len(gaps), gaps[-1])])
    return 100 * float(padded.mean())


def present(package: str) -> bool:
    """Say whether a package is installed."""
    return importlib.util.find_spec(package) is not None


def runs(names: Sequence[str], tables: Sequence[Table], *, seeds: int, told: bool, widths: Sequence[int]) -> list[Run]:
    """Return every run; kernel_tuner asks for one point at a time."""
    return [
        Run(name, table.name, start, seed, told, width)
        for seed, name, table, start, width in itertools.product(range(seeds), names, tables, STARTS, widths)
        if width == 1 or OTHERS.get(name) != "kernel_tuner"
    ]


def carry_out(
    todo: Sequence[Run], tables: Mapping[str, Table], file: Path | None, *, processes: int
) -> dict[Run, list[Point]]:
    """Return the points of each run in order; with a file, keep them there and take up what it has."""
    done: dict[Run, list[Point]] = {}
    if file is not None and file.exists():
        for line in file.read_text().splitlines():
            row = json.loads(line)
            done[Run(**row["run"])] = [tuple(point) for point in row["order"]]
    left = [run for run in todo if run not in done]
    with ProcessPoolExecutor(processes) as pool:
        asked = {pool.submit(order_of, run, tables[run.table]): run for run in left}
        for ended in as_completed(asked):
            run, order = asked[ended], ended.result()
            done[run] = order
            if file is not None:
                with file.open("a") as out:
                    out.write(json.dumps({"run": asdict(run), "order": order}) + "\n")
    return {run: done[run] for run in todo}


def report(orders: Mapping[Run, list[Point]], tables: Mapping[str, Table]) -> Iterator[str]:
    """Yield a row for each tuner, from its areas by start and number in hand, the best first."""
    found: dict[tuple[str, int], dict[Run, float]] = {}
    for run, order in orders.items():
        found.setdefault((run.tuner, run.in_hand), {})[run] = area(tables[run.table], order)
    yield "| tuner | in hand | runs | area, both starts | from the corner | from a random point |"
    yield "|---|---|---|---|---|---|"
    for (name, width), areas in sorted(found.items(), key=lambda each: float(np.mean(list(each[1].values())))):
        by_start = [[value for run, value in areas.items() if run.start == start] for start in STARTS]
        cells = [f"{np.mean(values):.1f} ± {interval(values):.1f}" for values in (list(areas.values()), *by_start)]
        yield f"| {name} | {width} | {len(areas)} | {' | '.join(cells)} |"


def interval(values: Sequence[float]) -> float:
    """Return half of the 95 % interval of a mean."""
    return 1.96 * float(np.std(values)) / math.sqrt(len(values))


def main() -> None:
    """Run the tuners and print their areas."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tuners", nargs="*", help=f"default: all that are installed, but for {', '.join(SLOW)}")
    parser.add_argument("--table", type=Path, nargs="+", default=sorted(TABLES.glob("*.json")))
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--in-hand", type=int, nargs="+", default=[1, 6])
    parser.add_argument(
        "--cornered", type=int, default=0, help="so many cuts of each table, its best point in a corner"
    )
    parser.add_argument("--untold", action="store_true", help="tell no tuner the rule of validity")
    parser.add_argument("--runs", type=Path, help="a file of finished runs, which are not run again")
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    missing = sorted({package for package in OTHERS.values() if not present(package)})
    if missing:
        print(f"not installed, so left out: {', '.join(missing)}")
    if unknown := sorted({*given.tuners} - {"ours", "random", *OTHERS}):
        parser.error(f"unknown: {', '.join(unknown)}; there are ours, random, {', '.join(OTHERS)}")
    found = [name for name, package in OTHERS.items() if present(package) and name not in SLOW]
    names = given.tuners or ["ours", "random", *found]
    read = [table for file in given.table for table in read_tables(file)]
    if given.cornered:
        read = [cornered(table, cut) for table in read for cut in range(given.cornered)]
    tables = {table.name: table for table in read}
    todo = runs(names, list(tables.values()), seeds=given.seeds, told=not given.untold, widths=given.in_hand)
    for line in report(carry_out(todo, tables, given.runs, processes=given.processes), tables):
        print(line)


if __name__ == "__main__":
    main()
