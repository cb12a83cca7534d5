"""The `evokernel` command: names of subcommands, loading on demand, and report of errors."""

import logging
import os
import signal
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import click

from evokernel import __version__
from evokernel.errors import EvokernelError

USAGE_EXIT = 2


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """Place of a command, and its help without an import."""

    module: str
    """Dotted name."""
    attribute: str
    """Name of the command in the module."""
    help: str
    """Line in `evokernel --help`."""


SECTIONS: dict[str, dict[str, CommandEntry]] = {
    "Search": {
        "init": CommandEntry("evokernel.cli.init", "command", "Make a task, kernels and a config from PyTorch."),
        "profile": CommandEntry(
            "evokernel.cli.profile", "command", "Which operations of a program are worth a search."
        ),
        "extract": CommandEntry(
            "evokernel.cli.extract", "command", "Make them from a Triton or CUDA kernel that you have."
        ),
        "evolve": CommandEntry(
            "evokernel.cli.evolve", "command", "Search for faster kernels; the same command goes on."
        ),
        "queue": CommandEntry("evokernel.cli.queue", "command", "Searches that share a night, one after the other."),
        "service": CommandEntry("evokernel.cli.service", "command", "A systemd unit or SLURM script for the queue."),
        "fork": CommandEntry("evokernel.cli.fork", "command", "Take a candidate and its ancestors into a new store."),
    },
    "Take part": {
        "ask": CommandEntry("evokernel.cli.ask", "command", "Write the next prompts of a run's models as files."),
        "tell": CommandEntry("evokernel.cli.tell", "command", "Hand answers to such prompts in, and judge them."),
        "hint": CommandEntry("evokernel.cli.hint", "command", "Say something to the models of a run."),
        "pin": CommandEntry("evokernel.cli.pin", "command", "Make a kernel a parent more often than others."),
        "ban": CommandEntry("evokernel.cli.ban", "command", "Bar a kernel from ever being a parent again."),
        "inject": CommandEntry("evokernel.cli.inject", "command", "Hand a kernel of your own to a run."),
        "evolve-prompts": CommandEntry(
            "evokernel.cli.evolve_prompts", "command", "Improve an operator's prompt; held-out tasks decide."
        ),
        "record": CommandEntry(
            "evokernel.cli.record", "command", "Write a run's replies to a file that can answer in place of a model."
        ),
        "mcp": CommandEntry("evokernel.cli.mcp", "command", "Serve a run to agents (Model Context Protocol)."),
    },
    "Look": {
        "status": CommandEntry("evokernel.cli.status", "command", "Where a run stands."),
        "watch": CommandEntry("evokernel.cli.watch", "command", "Follow a search that goes on elsewhere."),
        "best": CommandEntry("evokernel.cli.best", "command", "The best kernel and what is proved of it."),
        "show": CommandEntry("evokernel.cli.show", "command", "One candidate: source, origin, evaluations."),
        "diff": CommandEntry("evokernel.cli.diff", "command", "What differs between two candidates."),
        "lineage": CommandEntry("evokernel.cli.lineage", "command", "How a candidate came about, from the seed on."),
        "compare": CommandEntry(
            "evokernel.cli.compare", "command", "What differs between runs, and whether it can be told."
        ),
        "report": CommandEntry("evokernel.cli.report", "command", "All about a run as one HTML file."),
        "serve": CommandEntry("evokernel.cli.serve", "command", "The same as a page that follows the run."),
    },
    "Tools": {
        "evaluate": CommandEntry("evokernel.cli.evaluate", "command", "Judge one kernel file without a search."),
        "judge": CommandEntry("evokernel.cli.judge", "command", "Attack the judge with cheats made for a task."),
        "judge-server": CommandEntry("evokernel.cli.judge_server", "command", "Judge kernels that come in over HTTP."),
        "export": CommandEntry("evokernel.cli.export", "command", "Write a kernel as something to build or import."),
        "recheck": CommandEntry("evokernel.cli.recheck", "command", "Judge exported kernels again, after an upgrade."),
        "verify": CommandEntry("evokernel.cli.verify", "command", "Whether a store is whole."),
        "tasks": CommandEntry("evokernel.cli.tasks", "command", "The built-in tasks."),
        "schema": CommandEntry("evokernel.cli.schema", "command", "The JSON schema of a config, for editors."),
        "doctor": CommandEntry("evokernel.cli.doctor", "command", "What this machine offers, and what is missing."),
    },
}


class Refused(click.ClickException):
    """An error of ours as the terminal shows it: the message on stderr, exit code 2, no traceback."""

    exit_code = USAGE_EXIT

    def format_message(self) -> str:
        """Return the message without characters that would steer the terminal."""
        from evokernel.cli.display.text import clean

        return clean(self.message)

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message; in a terminal, wrap it between words."""
        if file is not None or not sys.stderr.isatty():
            super().show(file)
            return
        from rich.text import Text

        from evokernel.cli.display.text import stderr
        from evokernel.cli.display.word_table import wrapped

        lines = wrapped(Text(f"Error: {self.format_message()}"), stderr().width)
        click.echo("\n".join(line.plain for line in lines), err=True)


class LazyCommands(click.Group):
    """A group that imports a command's module only when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names in the order of `--help`."""
        return [name for entries in SECTIONS.values() for name in entries]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command, or None for an unknown name."""
        entry = _entry(cmd_name)
        if entry is None:
            return None
        command = getattr(import_module(entry.module), entry.attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{entry.module}.{entry.attribute} must be a click command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; an unknown name is answered with the nearest known one."""
        if args and _entry(args[0]) is None and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], self.list_commands(ctx), n=1)
            hint = f"; did you mean {near[0]!r}?" if near else "; see evokernel --help"
            raise click.UsageError(f"there is no command {args[0]!r}{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write names and one-line helps from the table above."""
        width = max(len(name) for name in self.list_commands(ctx))
        for title, entries in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), entry.help) for name, entry in entries.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; our own errors, a missing torch, an unusable path and a damaged store become a message.

        A reader of the output that goes away ends it quietly. All others keep their traceback.
        """
        try:
            return self._invoke(ctx)
        except BrokenPipeError:  # `evokernel diff A B | head`
            from evokernel.cli.session import SIGNAL_EXIT, discard_stdout

            discard_stdout()
            ctx.exit(SIGNAL_EXIT + signal.SIGPIPE)

    def _invoke(self, ctx: click.Context) -> Any:
        given = [*ctx.args]  # of the command; click drops them as it calls it
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "torch":
                raise
            raise Refused(
                "this command needs torch, which is not installed beside evokernel: pip install torch "
                "(the CPU build is enough without a GPU); `evokernel doctor` looks at the rest"
            ) from error
        except EvokernelError as error:
            raise Refused(str(error)) from error
        except (click.exceptions.Exit, click.ClickException, click.Abort):
            raise
        except (FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError, NotADirectoryError) as error:
            place = str(error.filename)
            if not any(place.startswith(each) or each.startswith(place + os.sep) for each in given if each):
                raise  # no path of the user's: a fault of ours, or of the machine
            raise Refused(f"cannot use {error.filename}: {error.strerror}") from error
        except OSError:
            raise
        except Exception as error:
            from evokernel.cli.locate import OPENED

            damage = _damage(ctx.find_root().meta.get(OPENED, ()))
            if not damage:
                raise
            raise Refused(damage) from error


def _entry(name: str) -> CommandEntry | None:
    return next((entries[name] for entries in SECTIONS.values() if name in entries), None)


def _damage(stores: Iterable[Path]) -> str:
    """Return what is wrong with the first damaged store of some; nothing where all are sound."""
    from archive.store import Store

    for path in stores:
        try:
            with Store.open(path, write=False) as store:
                found = store.verify()
        except EvokernelError as error:
            return str(error)
        if found:
            more = f", and {len(found) - 1} more" if len(found) > 1 else ""
            return f"{path} is damaged: {found[0]}{more}; `evokernel verify {path}` tells all"
    return ""


def _log_to_terminal(verbosity: int) -> None:
    from rich.logging import RichHandler

    from evokernel.cli.display.text import stderr

    level = logging.DEBUG if verbosity > 1 else logging.INFO
    handler = RichHandler(console=stderr(), show_path=verbosity > 1, markup=False, rich_tracebacks=False)
    logging.basicConfig(level=level, format="%(message)s", datefmt="%H:%M:%S", handlers=[handler])


@click.group(
    cls=LazyCommands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="First steps:  evokernel evolve configs/gemm.yaml   then   evokernel best",
)
@click.version_option(__version__, prog_name="evokernel", message="%(prog)s %(version)s")
@click.option("-v", "--verbose", count=True, help="Say what happens inside; twice for more.")
def main(verbose: int) -> None:
    """Evolve fast kernels that are proved right."""
    if verbose:
        _log_to_terminal(verbose)
