"""`evokernel hint`: a word from a person to the models of a run."""

from pathlib import Path

import click
import yaml

from evokernel.cli.inbox import hand_in
from evokernel.cli.locate import open_store, store_path
from evokernel.cli.options import takes_store
from evokernel.config.load import parse_config
from evokernel.errors import ConfigError

LONGEST = 8000
"""Length limit in characters: a hint is in every later prompt."""


@click.command()
@takes_store(text="TEXT")
@click.option("--island", metavar="NAME", default="", help="Only for this island; for all of them if left out.")
def command(store: Path | None, text: str, island: str) -> None:
    """Say something to the models of a run; it is in their prompts from then on.

    STORE may be in use.
    """
    path = store_path(store)
    if not text.strip() or len(text) > LONGEST:
        raise ConfigError(f"a hint has 1 to {LONGEST} characters, this one has {len(text.strip())}")
    if island:
        _check_island(path, island)
    then = hand_in(path, "hint", {"text": text.strip(), **({"island": island} if island else {})})
    click.echo(f"hint for {island or 'every island'}: {then}")


def _check_island(path: Path, island: str) -> None:
    with open_store(path) as store:
        stored = store.meta("config")
    if stored is None:
        return
    names = [each.name for each in parse_config(yaml.safe_load(stored), "the config in the store").islands]
    if island not in names:
        raise ConfigError(f"there is no island {island!r}; the run has {', '.join(names)}")
