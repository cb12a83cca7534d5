"""Bundle of several small files as one string of bytes: the transport of a build's results.

A header of 8 bytes (`EVKBND1` and a NUL), the length of a table (uint32, little-endian), the table as JSON (`[[name,
size], ...]`), the contents one after the other. A bundle's author may be hostile: a name is a relative path of plain
segments, numbers and sizes are bounded, and no bytes may be left over.
"""

import json
import re
import struct
from collections.abc import Mapping

MAGIC = b"EVKBND1\0"
FILE_LIMIT = 1024
SIZE_LIMIT_BYTES = 64 << 20
_TABLE_LIMIT_BYTES = 256 << 10
_NAME = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}/){0,3}[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}", re.ASCII)
_HEAD = struct.Struct("<8sI")


def pack(files: Mapping[str, bytes]) -> bytes:
    """Return the files as one string of bytes, the same for the same files.

    Raises `ValueError` if a name is not a plain relative path, or a bound of `unpack` is exceeded.
    """
    names = sorted(files)
    table = json.dumps([[name, len(files[name])] for name in names], separators=(",", ":")).encode()
    data = b"".join([_HEAD.pack(MAGIC, len(table)), table, *(files[name] for name in names)])
    unpack(data)
    return data


def unpack(data: bytes) -> dict[str, bytes]:
    """Return the files of a bundle by name.

    Raises `ValueError` if the bundle is malformed, a name is not a plain relative path, or a bound is exceeded.
    """
    if len(data) < _HEAD.size or not data.startswith(MAGIC):
        raise ValueError("not a bundle")
    if len(data) > SIZE_LIMIT_BYTES:
        raise ValueError(f"a bundle of {len(data)} bytes; the limit is {SIZE_LIMIT_BYTES}")
    _, length = _HEAD.unpack_from(data)
    start = _HEAD.size + length
    if length > _TABLE_LIMIT_BYTES or start > len(data):
        raise ValueError("the table of a bundle is cut off or too long")
    table = _read_table(data[_HEAD.size : start])
    if start + sum(table.values()) != len(data):
        raise ValueError("the sizes in a bundle's table are not those of its contents")
    files = {}
    for name, size in table.items():
        files[name] = data[start : start + size]
        start += size
    return files


def _read_table(text: bytes) -> dict[str, int]:
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("the table of a bundle is not JSON") from None
    if not isinstance(rows, list) or len(rows) > FILE_LIMIT:
        raise ValueError(f"a bundle's table must be a list of at most {FILE_LIMIT} files")
    table: dict[str, int] = {}
    for row in rows:
        match row:
            case [str(name), int(size)] if type(size) is int and size >= 0 and _NAME.fullmatch(name):
                if name in table:
                    raise ValueError("a bundle names a file twice")
                table[name] = size
            case _:
                raise ValueError("a bundle's table has a row that is not a plain name and a size")
    _refuse_files_as_folders(table)
    return table


def _refuse_files_as_folders(table: Mapping[str, int]) -> None:
    for name in table:
        segments = name.split("/")[:-1]
        if any("/".join(segments[: end + 1]) in table for end in range(len(segments))):
            raise ValueError("a bundle has a file below a file")
