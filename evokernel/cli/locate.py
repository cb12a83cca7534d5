"""Resolution of a store from the command line: a file, a config, or the only store there is."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from archive.store import Store
from evokernel.errors import StoreError

if TYPE_CHECKING:
    from evokernel.config.run import RunConfig

RUNS = Path("runs")
CONFIG_SUFFIXES = (".yaml", ".yml")
_MANY = 3000
"""Facts from which on reading all of them takes a second or more."""
_SET_ASIDE = re.compile(r"\.\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(-\d+)?$")
OPENED = "evokernel.opened_stores"
"""Key of the stores that a command has opened, in the `meta` of its outermost context."""


def is_store(word: str) -> bool:
    """Say whether a word of the command line names a store or a config, and not a candidate."""
    return names_store(word) or "/" in word


def names_store(word: str) -> bool:
    """Say whether a word is the name of a store or a config by its suffix."""
    return word.endswith((".db", *CONFIG_SUFFIXES))


def store_path(given: Path | None) -> Path:
    """Return the file of a store.

    Args:
        given: the file itself, the config of a run, or None for the only store under `runs/` of the working folder.
            Stores that --fresh has moved aside are not counted.

    Raises:
        StoreError: no store, or more than one, can be meant.
        ConfigError: the config cannot be used.
    """
    if given is not None:
        if given.suffix not in CONFIG_SUFFIXES:
            return given
        from evokernel.config.load import load_config  # costs 0.1 s, and a .db needs none

        return store_of(given, load_config(given))
    found = sorted(path for path in RUNS.glob("*.db") if not _SET_ASIDE.search(path.stem))
    if not found:
        raise StoreError(
            "there is no store under runs/; name one or its config, or start a search with `evokernel evolve CONFIG`"
        )
    if len(found) > 1:
        names = ", ".join(str(path) for path in found[:6])
        raise StoreError(f"there are several stores: {names}{', ...' if len(found) > 6 else ''}; name the one you mean")
    return found[0]


def store_of(config: Path, settings: "RunConfig") -> Path:
    """Return the store of a config; one that an earlier release made under the working folder is found, and said."""
    path, old = Path(settings.store), RUNS / f"{config.stem}.db"
    if path.exists() or path != config.parent / old or not old.exists():
        return path
    import yaml  # few commands need it

    with Store.open(old, write=False) as store:  # it may be another run of that name
        known = yaml.safe_load(store.meta("config") or "") or {}
    if known.get("task") != settings.task:
        return path
    click.echo(f"the store is {old}, in the current folder; that of a new run would be {path}", err=True)
    return old


def open_store(given: Path | None) -> Store:
    """Open a store for reading. Raises `StoreError`."""
    path = store_path(given)
    note_opened(path)
    return Store.open(path, write=False)


def say_if_long(*stores: Store, stage: str = "reading") -> None:
    """Say on stderr what a command is at, where it reads more facts than a second has time for."""
    facts = sum(store.last_seq() for store in stores)
    if facts > _MANY:
        from evokernel.cli.display.text import say  # what only opens a store does without

        say(f"{stage} {facts} facts: some seconds")


def note_opened(path: Path) -> None:
    """Note a store that the command reads: where it fails at that, the damage is told and not the error."""
    context = click.get_current_context(silent=True)
    if context is not None:
        context.find_root().meta.setdefault(OPENED, []).append(path)
