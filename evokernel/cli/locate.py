"""Resolution of a store from the command line: a file, a config, or the only store there is."""

import re
from pathlib import Path

import click

from archive.store import Store
from evokernel.errors import StoreError

RUNS = Path("runs")
CONFIG_SUFFIXES = (".yaml", ".yml")
_SET_ASIDE = re.compile(r"\.\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(-\d+)?$")

store_argument = click.argument("store", required=False, type=click.Path(path_type=Path), metavar="[STORE|CONFIG]")
store_option = click.option(
    "-s",
    "--store",
    type=click.Path(path_type=Path),
    metavar="STORE|CONFIG",
    help="The .db file, or the config that names it; the only one under runs/ if left out.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON with the fields of docs/json.md.")


def store_path(given: Path | None) -> Path:
    """Return the file of a store.

    Args:
        given: the file itself, the config of a run, or None for the only store under `runs/`. Stores that --fresh has
            moved aside are not counted.

    Raises:
        StoreError: no store, or more than one, can be meant.
        ConfigError: the config cannot be used.
    """
    if given is not None:
        if given.suffix not in CONFIG_SUFFIXES:
            return given
        from evokernel.config.run import load_config  # costs 0.1 s, and a .db needs none

        return Path(load_config(given).store)
    found = sorted(path for path in RUNS.glob("*.db") if not _SET_ASIDE.search(path.stem))
    if not found:
        raise StoreError("there is no store under runs/; name one, or start a search with `evokernel evolve CONFIG`")
    if len(found) > 1:
        names = ", ".join(str(path) for path in found[:6])
        raise StoreError(f"there are several stores: {names}{', ...' if len(found) > 6 else ''}; name the one you mean")
    return found[0]


def open_store(given: Path | None) -> Store:
    """Open a store for reading. Raises `StoreError`."""
    return Store.open(store_path(given), write=False)
