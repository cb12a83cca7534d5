"""Options and arguments that several commands share, above all the store that a command is about."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import click

from evokernel.cli.completion import complete_stores, completing
from evokernel.cli.locate import is_store, names_store

_METAVAR = "STORE|CONFIG"
_IDS = ("A", "B", "ID")
"""Metavars of candidates."""
_NO_STORES = (*_IDS, "DIR")
"""Metavars of arguments that a name of a store is none of."""
Command = Callable[..., Any]


def refuse_blank(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names that an option was given. Raises `BadParameter` for nothing but blanks."""
    if not all(each.strip() for each in value):
        raise click.BadParameter("a name has characters", ctx, param)
    return value


class _Number(click.FloatRange):
    """A finite number within a range: `click.FloatRange` lets NaN pass any bounds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number. Raises `BadParameter`."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"expected a finite number, got {value!r}", param, ctx)
        return number


def number(low: float, high: float | None = None, *, low_open: bool = False) -> click.FloatRange:
    """Return the type of an option that takes a finite number from `low` to `high`."""
    return _Number(low, high, min_open=low_open)


PATH = click.Path(path_type=Path)
FILE = click.Path(path_type=Path, dir_okay=False)
EXISTING_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)
POSITIVE = number(low=0, low_open=True)
store_option = click.option(
    "-s",
    "--store",
    "store",
    type=PATH,
    metavar=_METAVAR,
    shell_complete=complete_stores,
    help="The .db file, or the config that names it; the only one under runs/ if left out.",
)


def store_argument(command: Command) -> Command:
    """Add a store to a command that has no other argument: a positional, or -s."""
    return takes_store()(command)


def takes_store(**others: str) -> Callable[[Command], Command]:
    """Add a store and other arguments to a command: `[STORE|CONFIG] OTHERS`, where -s may name the store as well.

    The command gets `store`, None where none was named, and each other argument as text.

    Args:
        others: metavar by name of the parameter, in order; one in brackets may be left out, and is empty then. The
            store may then stand behind it, and is told by its suffix.
    """

    def decorate(command: Command) -> Command:
        @wraps(command)
        def called(*args: Any, words: tuple[str, ...], store: Path | None, **options: Any) -> Any:
            found, rest = _told_apart(words, store, others)
            return command(*args, store=found, **dict(zip(others, rest, strict=True)), **options)

        metavar = " ".join([f"[{_METAVAR}]", *others.values()])
        given = click.argument("words", nargs=-1, metavar=metavar, shell_complete=completing(tuple(others.values())))
        return given(store_option(called))

    return decorate


def stores_argument(command: Command) -> Command:
    """Add any number of stores to a command: positionals, or -s, which may be repeated. It gets `stores`, a tuple."""

    @wraps(command)
    def called(*args: Any, stores: tuple[Path, ...], more: tuple[Path, ...], **options: Any) -> Any:
        return command(*args, stores=(*stores, *more), **options)

    given = click.argument("stores", nargs=-1, type=PATH, metavar=f"[{_METAVAR}]...", shell_complete=complete_stores)
    option = click.option(
        "-s", "--store", "more", multiple=True, type=PATH, metavar=_METAVAR,
        shell_complete=complete_stores, help="The same as the argument; may be repeated.",
    )  # fmt: skip
    return given(option(called))


def _told_apart(words: Sequence[str], store: Path | None, others: Mapping[str, str]) -> tuple[Path | None, list[str]]:
    """Return the store among the words, if any, and the other arguments. Raises `UsageError`."""
    rest, needed = list(words), [name for name in others.values() if not name.startswith("[")]
    place = None
    if len(needed) < len(others) or not others:
        place = next((number for number, word in enumerate(rest) if not others or is_store(word)), None)
    elif len(rest) > len(others) or (
        store is None and rest and names_store(rest[0]) and (len(rest) > 1 or needed[0] in _NO_STORES)
    ):
        place = 0
    if place is not None:
        named = Path(rest.pop(place))
        if store is not None and store != named:
            raise click.UsageError(f"two stores are named: {named} and --store {store}; name one")
        store = named
    if len(rest) < len(needed):
        missing = needed[len(rest)]
        ids = (
            f": an id, `best` or `seed`; `evokernel show {f'{store} ' if store else ''}--top 20` lists ids"
            if missing in _IDS
            else "."
        )
        raise click.UsageError(f"Missing argument {missing!r}{ids}")
    if len(rest) > len(others):
        raise click.UsageError(f"Got unexpected extra argument ({rest[len(others)]})")
    return store, [*rest, *[""] * (len(others) - len(rest))]


verbose_option = click.option("-v", "--verbose", is_flag=True, help="Say more: compilers, versions, sandbox.")
cuda_include_option = click.option(
    "--cuda-include",
    multiple=True,
    type=click.Path(),
    metavar="DIR",
    help="A folder of headers for CUDA C++, such as CUTLASS's include; may be given several times.",
)
task_option = click.option(
    "--task", "task_spec", required=True, metavar="T", help="A built-in task or the path of a task file."
)
judge_set_option = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="evaluation.KEY=VALUE",
    help="One setting of the judge as docs/config.md has it, e.g. evaluation.compile_timeout_s=60.",
)
api_base_option = click.option("--api-base", metavar="URL", help="The address of an endpoint of your own for --model.")
shapes_option = click.option(
    "--shapes",
    multiple=True,
    metavar="TEXT",
    help='Further sizes that matter to you, for example "x: 4096x8192, w: 8192"; may be given several times.',
)
out_option = click.option("--out", type=FOLDER, help="Folder to write to; that of FILE if left out.")
force_option = click.option("--force", is_flag=True, help="Replace files that are there.")
host_option = click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
port_option = click.option(
    "--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="The port; any that is free if left out."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON with the fields of docs/json.md.")
