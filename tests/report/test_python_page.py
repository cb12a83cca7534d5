"""docs/python.md names what there is."""

import re
from pathlib import Path

from evokernel.python.run import Run
from evokernel.report.frame import COLUMNS
from evokernel.report.plots import Plots

PAGE = (Path(__file__).parents[2] / "docs" / "python.md").read_text()


def cells(section: str) -> str:
    return "\n".join(line.split("|")[1] for line in section.splitlines() if line.startswith("| `"))


def test_every_column_is_described() -> None:
    described = re.findall(r"`(\w+)`", cells(PAGE.split("## Columns")[1]))
    assert described == [*COLUMNS]


def test_every_method_is_described() -> None:
    described = set(re.findall(r"`run\.([\w.]+)", cells(PAGE.split("## Columns")[0])))
    assert described == public(Run) - {"close", "plot", "id_of"} | {f"plot.{name}" for name in public(Plots)}


def public(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}
