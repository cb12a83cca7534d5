"""Writes docs/picture.svg, the picture of the README, from the store of a real run: `python docs/picture.py STORE`."""

import io
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

from evokernel import open_store
from evokernel.cli.display.tables import circumstances, comparison, table, title, workloads
from evokernel.cli.display.text import times

WIDTH = 92
STEPS, CHARACTERS = 7, 52


def main(store: str) -> None:
    """Record what a terminal shows of the best kernel of a run and of its way, and write it as a picture."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    with open_store(store) as run:
        best, facts = run.best(), run.status().run
        console.print(Text(f"$ evokernel evolve configs/{facts.task}.yaml", style="bold"), "")
        for part in (title(best), comparison(best), workloads(best.evaluation), circumstances(best, facts)):
            console.print(part, "")
        console.print(Text("$ evokernel lineage", style="bold"), "")
        way = table("step", "operator", "speed-up", "change", right=(0, 2))
        for step in run.story()[-STEPS:]:
            speedup = "" if step.speedup is None else times(step.speedup)
            way.add_row(str(step.step), step.operator, speedup, step.rationale[:CHARACTERS])
        console.print(way)
    console.save_svg(str(Path(__file__).with_name("picture.svg")), title="evokernel")


if __name__ == "__main__":
    main(sys.argv[1])
