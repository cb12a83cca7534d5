"""Options `--training` and `--check` of `evokernel export`: rows to learn from, and their check."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.text import Text

from archive.store import Store
from evokernel.cli.completion import complete_operators
from evokernel.cli.display.tables import put, sheet
from evokernel.cli.display.text import BAD, GOOD, STRONG, clean, stdout
from evokernel.cli.locate import open_store

F = TypeVar("F", bound=Callable[..., Any])
_MOST_SHOWN = 20

_OPTIONS = (
    click.option(
        "--training",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Write prompts, replies and verdicts of one or more runs as training data instead (JSONL).",
    ),
    click.option(
        "--check",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Check the rows of such a file against the stores they come from.",
    ),
    click.option(
        "--min-speedup", type=click.FloatRange(min=0), default=0.0, metavar="X",
        help="With --training: only kernels that are at least so fast, by the low end of the interval.",
    ),
    click.option(
        "--operator", "operators", multiple=True, metavar="NAME", shell_complete=complete_operators,
        help="With --training: only replies for it.",
    ),
    click.option("--model", "models", multiple=True, metavar="NAME", help="With --training: only replies of it."),
    click.option("--holdout-passed", is_flag=True, help="With --training: only kernels right on held-out workloads."),
    click.option(
        "--discount", type=click.FloatRange(0, 1), default=0.4, show_default=True, metavar="G",
        help="With --training: the weight of the next turn's score in a return.",
    ),
)  # fmt: skip


def training_options(command: F) -> F:
    """Add the options above to a command, which takes them as keywords."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def export_training(folder: Path, places: Sequence[Path | None], asked: dict[str, Any]) -> None:
    """Write training data of some runs and say what there is."""
    from evokernel.training.dataset import write_dataset
    from evokernel.training.rows import ReplyChoice

    choice = ReplyChoice(
        min_speedup=asked["min_speedup"],
        operators=frozenset(asked["operators"]),
        models=frozenset(asked["models"]),
        holdout_passed=asked["holdout_passed"],
        discount=asked["discount"],
    )
    with ExitStack() as stack:
        made = write_dataset(folder, _opened(places, stack), choice)
    put(
        stdout(),
        Text.assemble(("written ", GOOD), clean(str(made.folder))),
        sheet({f"{kind}.jsonl": f"{count} row{'' if count == 1 else 's'}" for kind, count in made.rows.items()}),
    )


def check_training(file: Path, places: Sequence[Path | None]) -> bool:
    """Say what is wrong with training data; return whether it is sound."""
    from evokernel.training.checking import check_file

    with ExitStack() as stack:
        checked = check_file(file, _opened(places, stack))
    for complaint in checked.complaints[:_MOST_SHOWN]:
        stdout().print(Text.assemble((f"line {complaint.line} ", BAD), clean(complaint.reason)))
    wrong = len({complaint.line for complaint in checked.complaints})
    verdict = (f"{wrong} of {checked.rows} rows are not sound", BAD) if wrong else (f"{checked.rows} rows, sound", GOOD)
    stdout().print(Text.assemble((clean(file.name), STRONG), ": ", verdict))
    return not wrong


def _opened(places: Sequence[Path | None], stack: ExitStack) -> list[Store]:
    return [stack.enter_context(open_store(place)) for place in places]
