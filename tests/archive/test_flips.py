"""Random flips of single bits in the file of a store: what changes a value that a command can show is located."""

import random
from pathlib import Path

import pytest

from archive.file.texts import unpack
from archive.store import Store
from archive.verify import TEXTS
from evokernel.errors import StoreError
from tests.support.stores import StoreBuilder, fill_store

_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> 'images'"


def shown(path: Path) -> list[str]:
    """Return all that a command can show: every row but its digests, texts as they read."""
    with Store.open(path, write=False) as store:
        found = []
        for (table,) in map(tuple, store.database.rows(_TABLES)):
            columns = [row["name"] for row in store.database.rows(f"PRAGMA table_info({table})")]
            names = ", ".join(name for name in columns if name not in ("digest", "checksum"))
            for row in store.database.rows(f"SELECT {names} FROM {table}"):
                values = [
                    unpack(value) if name == "body" else value for name, value in zip(row.keys(), row, strict=True)
                ]
                found.append(ascii((table, values)))
        return sorted(found)


def problems(path: Path) -> list[str]:
    """Return what `verify` says, or why the store cannot be opened."""
    try:
        with Store.open(path, write=False) as store:
            return store.verify()
    except StoreError as error:
        return [str(error)]


@pytest.mark.parametrize("count", [40, pytest.param(1_000, marks=pytest.mark.slow)])
def test_each_flip_that_changes_a_value_is_located(tmp_path: Path, count: int) -> None:
    fill_store(tmp_path / "sound.db")
    sound, before = (tmp_path / "sound.db").read_bytes(), shown(tmp_path / "sound.db")
    assert not problems(tmp_path / "sound.db")
    flipped, located, rng = tmp_path / "flipped.db", 0, random.Random(count)
    for _ in range(count):
        place, bit = rng.randrange(len(sound)), 1 << rng.randrange(8)
        flipped.write_bytes(sound[:place] + bytes([sound[place] ^ bit]) + sound[place + 1 :])
        if problems(flipped):
            located += 1
        else:
            assert shown(flipped) == before, f"byte {place}, bit {bit} is neither located nor harmless"
    assert located > count // 50


def test_texts_out_of_their_order_are_located_and_not_read_for_ever(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "sound.db") as builder:
        builder.seed()
        for number in range(2 * TEXTS):
            builder.call(f"reply {number}", prompt=f"prompt {number}")
        hashes = [row[0] for row in builder.store.database.rows("SELECT hash FROM texts ORDER BY hash")]
    path, last_of_page = tmp_path / "sound.db", hashes[TEXTS - 1].encode()
    path.write_bytes(path.read_bytes().replace(last_of_page, b"0" * len(last_of_page)))
    assert "rows do not come in the order of hash" in " ".join(problems(path))
