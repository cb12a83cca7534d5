"""The `evokernel` command: names of subcommands, loading on demand, and report of errors."""

import atexit
import gc
import logging
import os
import signal
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from traceback import extract_tb
from typing import IO, Any

import click

from evokernel import __version__
from evokernel.cli import INTERRUPTED_EXIT
from evokernel.errors import EvokernelError

USAGE_EXIT = 2
_YOUNG_OBJECTS = 50_000
"""Objects to be made between two collections of garbage: with 700, a sixth of the time of importing torch is theirs."""
SECTIONS = {
    "Search": {
        "init": "Make a task, kernels and a config from PyTorch.",
        "extract": "Make them from a Triton or CUDA kernel that you have.",
        "profile": "Which operations of a program are worth a search.",
        "evolve": "Search for faster kernels; the same command goes on.",
        "queue": "Searches that share a night, one after the other.",
        "service": "A systemd unit or SLURM script for the queue.",
        "fork": "Take a candidate and its ancestors into a new store.",
    },
    "Take part": {
        "ask": "Write the next prompts of a run's models as files.",
        "tell": "Hand answers to such prompts in, and judge them.",
        "hint": "Say something to the models of a run.",
        "pin": "Make a kernel a parent more often than others.",
        "ban": "Bar a kernel from ever being a parent again.",
        "inject": "Hand a kernel of your own to a run.",
        "evolve-prompts": "Improve an operator's prompt; held-out tasks decide.",
        "record": "Write a run's replies to a file that can answer in place of a model.",
        "mcp": "Serve a run to agents (Model Context Protocol).",
    },
    "Look": {
        "status": "Where a run stands.",
        "watch": "Follow a search that goes on elsewhere.",
        "best": "The best kernel and what is proved of it.",
        "show": "One candidate: source, origin, evaluations.",
        "diff": "What differs between two candidates.",
        "lineage": "How a candidate came about, from the seed on.",
        "compare": "What differs between runs, and whether it can be told.",
        "report": "All about a run as one HTML file.",
        "serve": "The same as a page that follows the run.",
    },
    "Tools": {
        "evaluate": "Judge one kernel file without a search.",
        "judge": "Attack the judge with cheats made for a task.",
        "judge-server": "Judge kernels that come in over HTTP.",
        "export": "Write a kernel as something to build or import.",
        "recheck": "Judge exported kernels again, after an upgrade.",
        "verify": "Whether a store is whole.",
        "tasks": "The built-in tasks.",
        "schema": "The JSON schema of a config, for editors.",
        "doctor": "What this machine offers, and what is missing.",
    },
}
"""The line of each command in `evokernel --help`, by section; its module has its name, with `_` for `-`."""


OWN_PROCESS = "own process"
"""Object of click's context where the command line is the whole process, and not called from another's."""


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


def _leave_torch_alone() -> None:
    """Let the end of the process not look through all that torch made, for a third of a second.

    Where Triton is loaded it does: its bindings would report all their functions as leaks.
    """
    if "triton" not in sys.modules:
        gc.freeze()


class LazyCommands(click.Group):
    """A group that imports a command's module only when the command is called."""

    def main(self, args: Sequence[str] | None = None, *others: Any, **named: Any) -> Any:
        """Run the command line; without `args` it is this process, which then starts and ends in less time."""
        if args is None:
            gc.set_threshold(_YOUNG_OBJECTS)
            atexit.register(_leave_torch_alone)
            named.setdefault("obj", OWN_PROCESS)
        return super().main(args, *others, **named)

    def make_context(self, *others: Any, **named: Any) -> click.Context:
        """Read the command line; click would answer an interrupt with 1, which is a verdict of some commands."""
        try:
            return super().make_context(*others, **named)
        except KeyboardInterrupt:
            click.echo("\ninterrupted", err=True)
            raise click.exceptions.Exit(INTERRUPTED_EXIT) from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names in the order of `--help`."""
        return [name for entries in SECTIONS.values() for name in entries]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command, or None for an unknown name."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = import_module(f"evokernel.cli.{cmd_name.replace('-', '_')}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; an unknown name is answered with the nearest known one."""
        if args and args[0] not in self.list_commands(ctx) and not args[0].startswith("-"):
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
                formatter.write_dl([(name.ljust(width), line) for name, line in entries.items()])

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
        except (click.exceptions.Exit, click.Abort):
            raise
        except SystemExit as error:  # ours end by click: it would pass for a verdict of the command
            last = extract_tb(error.__traceback__)[-1]
            raise Refused(f"{last.filename}:{last.lineno} ends the process; what a command runs must return") from error
        except (KeyboardInterrupt, Exception) as error:
            if not _is_interrupt(error):
                raise
            click.echo("\ninterrupted", err=True)
            ctx.exit(INTERRUPTED_EXIT)

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


def _is_interrupt(error: BaseException | None) -> bool:
    """Say whether an error is an interrupt, or came of one: some packages fail in other words where it stops them."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


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
