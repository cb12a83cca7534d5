"""Migrations of the file, as numbered steps. A released step is never edited: add another.

The version of a file is the number of steps that it has had. The SQL of each lies in the folder `steps`.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from archive.file import chain, checksums
from archive.file.database import Database

Step = Callable[[Database], None]


def _run(name: str, database: Database) -> None:
    text = Path(__file__).with_name("steps").joinpath(f"{name}.sql").read_text(encoding="utf-8")
    for statement in text.split(";"):
        if statement.strip():
            database.execute(statement)


def _add_digests(database: Database) -> None:
    """Add remarks and digests, and write the digests of all present rows."""
    _run("v4_digests", database)
    chain.sign_all(database)
    checksums.sign_all(database)


STEPS: tuple[Step, ...] = (
    partial(_run, "v1_first"),
    partial(_run, "v2_models"),
    partial(_run, "v3_images"),
    _add_digests,
)
