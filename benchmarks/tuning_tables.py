"""Recorded tables: the time of a kernel at every point of its tunables, on one shape of its inputs."""

import itertools
import json
import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from evokernel.source.expressions import evaluate

TABLES = Path(__file__).parent / "tables"

Point = tuple[int, ...]


@dataclass(frozen=True)
class Table:
    """The times of one kernel on one shape, at every point of its tunables."""

    name: str
    """File and shape."""
    choices: Mapping[str, list[int]]
    """The values of each tunable."""
    us: Mapping[Point, float | None]
    """Time of each point, in us; None where it cannot run."""
    rule: str
    """The rule of validity: an expression over the tunables that is not 0 where a point may run."""
    shared_bytes: str | None = None
    """Shared memory of a point in bytes, as an expression over the tunables; None where no expression is known."""
    shared_limit: int = 0
    """Shared memory of the device, in bytes."""

    @cached_property
    def best(self) -> float:
        """The shortest time, in us."""
        return min(us for us in self.us.values() if us is not None)

    @cached_property
    def working(self) -> list[Point]:
        """The points that run, in order."""
        return [point for point, us in self.us.items() if us is not None]

    def allows(self, point: Point) -> bool:
        """Say whether the rule of validity holds."""
        return bool(evaluate(self.rule, dict(self.named(point))))

    def named(self, point: Point) -> Iterator[tuple[str, int]]:
        """Return names and values of a point."""
        return zip(self.choices, point, strict=True)

    def start(self, kind: str, seed: int) -> Point:
        """Return the first point of the grid, or a random one that runs."""
        return self.working[0] if kind == "corner" else random.Random(seed).choice(self.working)


def read_tables(file: Path) -> list[Table]:
    """Return a table for each shape of a file."""
    raw = json.loads(file.read_text())
    points = list(itertools.product(*raw["choices"].values()))
    return [
        Table(
            f"{file.stem} {shape}",
            raw["choices"],
            dict(zip(points, times, strict=True)),
            raw.get("rule") or f"{raw['shared_bytes']} <= {raw['shared_limit']}",
            raw.get("shared_bytes"),
            raw.get("shared_limit", 0),
        )
        for shape, times in raw["us"].items()
    ]


def cornered(table: Table, cut: int) -> Table:
    """Return the table with ranges that end at the best point, each at one side: it lies in a corner of all of them."""
    best = min(table.working, key=lambda point: table.us[point] or math.inf)
    rng, choices = random.Random(cut), dict[str, list[int]]()
    for name, value in table.named(best):
        place = table.choices[name].index(value)
        sides = [table.choices[name][: place + 1], table.choices[name][place:]]
        choices[name] = rng.choice([side for side in sides if len(side) > 1])
    us = {point: table.us[point] for point in itertools.product(*choices.values())}
    return replace(table, name=f"{table.name}, cut {cut}", choices=choices, us=us)
