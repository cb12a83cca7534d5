"""`evokernel ask`: the next prompts of a run as files, for people or programs to answer."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from evokernel.cli.completion import complete_operators
from evokernel.cli.display.tables import put, table
from evokernel.cli.display.text import clean, one_line, say, stdout
from evokernel.cli.locate import CONFIG_SUFFIXES, open_store, store_path
from evokernel.cli.options import FOLDER, store_argument

if TYPE_CHECKING:
    from evokernel.config.run import RunConfig

MOST = 200


@click.command(
    epilog="Exit codes: 0 prompts were written; 2 an error, said on stderr. Answer as many as you like, in any order, "
    "then `evokernel tell`. The folder may be carried to another machine and back."
)
@store_argument
@click.option("-n", "--count", type=click.IntRange(1, MOST), default=8, show_default=True, help="Prompts to write.")
@click.option("--out", type=FOLDER, required=True, help="The folder for them.")
@click.option(
    "--operator",
    "operators",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_operators,
    help="Only prompts of this operator; may be repeated.",
)
@click.option("--force", is_flag=True, help="Give up prompts in the folder that were not told yet.")
def command(store: Path | None, count: int, out: Path, operators: tuple[str, ...], force: bool) -> None:
    """Write prompts of a run's LLM operators into files.

    The store is only read, and may be in use; neither a GPU nor a network is needed. With a CONFIG its operators and
    islands count, otherwise those the run had last.
    """
    from evokernel.offline.folder import (  # with what follows a second: it loads the task
        FolderManifest,
        write_questions,
    )
    from evokernel.offline.prompts import prompts, read_run

    place = store or store_path(None)
    say("loading the task, and writing its prompts")
    with open_store(place) as opened:
        run = read_run(opened, config_of(place))
    found = prompts(run, count=count, names=operators)
    if not found:
        click.echo("there is nothing to ask now: the operators that ask models lack kernels or failures to work on")
        return
    manifest = FolderManifest(run.run_id, run.setting.task.name, run.config.language, run.fold.state.seq, ())
    asked = [(prompt.selection.origin, prompt.messages, prompt.repeats) for prompt in found]
    made = write_questions(out, manifest, asked, force=force)
    shown = table("prompt", "operator", "island", "about")
    for question in made.questions:
        about = ", ".join(parent[:8] for parent in question.origin.parents)
        shown.add_row(question.file, one_line(question.origin.operator), one_line(question.origin.island), about)
    put(
        stdout(),
        shown,
        f"Each says where its answer goes, for example {made.questions[0].reply_file}. Then:  evokernel tell "
        f"{clean(str(place))} {clean(str(out))}",
    )


def config_of(place: Path) -> "RunConfig | None":
    """Return the config that was named in place of a store; None for a store."""
    if place.suffix not in CONFIG_SUFFIXES:
        return None
    from evokernel.config.load import load_config

    return load_config(place)
