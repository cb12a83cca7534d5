import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evokernel.evaluate.inside.process.bundle import FILE_LIMIT, MAGIC, pack, unpack

_SEGMENT = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,6}", fullmatch=True)
_FILES = st.dictionaries(_SEGMENT.map(lambda name: f"cache/{name}"), st.binary(max_size=40), max_size=6)


def with_table(table: object, contents: bytes = b"") -> bytes:
    text = json.dumps(table).encode()
    return MAGIC + struct.pack("<I", len(text)) + text + contents


@given(_FILES)
def test_what_goes_in_comes_out(files: dict[str, bytes]):
    assert unpack(pack(files)) == files


def test_order_does_not_matter():
    assert pack({"a": b"1", "b/c.json": b"2"}) == pack({"b/c.json": b"2", "a": b"1"})


@given(_FILES, st.integers(0, 200), st.binary(max_size=4))
def test_damage_is_an_error_or_another_bundle(files: dict[str, bytes], place: int, noise: bytes):
    data = pack(files)
    damaged = data[:place] + noise + data[place + len(noise) :]
    try:
        found = unpack(damaged)
    except ValueError:
        return
    assert all(".." not in name.split("/") and not name.startswith("/") for name in found)
    assert sum(map(len, found.values())) < len(damaged)


@given(st.binary(max_size=100))
def test_noise_is_refused(data: bytes):
    with pytest.raises(ValueError, match="bundle"):
        unpack(data)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/etc/passwd",
        "../x",
        "a/../b",
        "a//b",
        "a/",
        ".hidden",
        "a/.b",
        "a\\b",
        "a\n",
        "ä",
        "a b",
        "x" * 201,
        "a/b/c/d/e",
    ],
)
def test_names_are_plain_relative_paths(name: str):
    with pytest.raises(ValueError, match="plain name"):
        pack({name: b""})


@pytest.mark.parametrize(
    "data",
    [
        with_table({"a": 1}),
        with_table([["a", 1]]),
        with_table([["a", -1]]),
        with_table([["a", True]], b"x"),
        with_table([["a", 1.0]], b"x"),
        with_table([["a", 1, 2]], b"x"),
        with_table([["a", 0], ["a", 0]]),
        with_table([["a", 0], ["a/b", 0]]),
        with_table([["a", 1]], b"xy"),
        with_table([[f"f{number}", 0] for number in range(FILE_LIMIT + 1)]),
        with_table([["a", 2**70]]),
        MAGIC + struct.pack("<I", 1 << 31),
        MAGIC + struct.pack("<I", 4) + b"\xff\xfe[]",
        MAGIC + struct.pack("<I", 100_000) + b"[" * 100_000,
    ],
)
def test_hostile_tables_are_refused(data: bytes):
    with pytest.raises(ValueError, match="bundle"):
        unpack(data)
