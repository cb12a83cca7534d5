"""Texts: compressed with Zstandard, stored once under the SHA-256 of their UTF-8 bytes."""

import hashlib
import threading

import zstandard

from archive.file.database import Database
from evokernel.errors import StoreCorrupt

_LEVEL = 3


class _Codec(threading.local):
    """Compressor and decompressor of one thread: two threads in one of them damage its memory."""

    def __init__(self) -> None:
        self.compress = zstandard.ZstdCompressor(level=_LEVEL).compress
        self.decompress = zstandard.ZstdDecompressor().decompress


_codec = _Codec()


def put_text(database: Database, text: str) -> str:
    """Store a text within the open transaction, unless it is there, and return its hash."""
    data = text.encode()
    digest = hashlib.sha256(data).hexdigest()
    values = (digest, len(data), _codec.compress(data))  # nearly every text is new: looking first costs more
    database.execute("INSERT INTO texts VALUES (?, ?, ?) ON CONFLICT(hash) DO NOTHING", values)
    return digest


def unpack(body: bytes) -> str:
    """Return the text of a stored body. Raises `StoreCorrupt` if the body is damaged."""
    try:
        return _codec.decompress(body).decode()
    except (zstandard.ZstdError, UnicodeDecodeError, MemoryError) as error:  # a damaged header asks for any size
        said = str(error) or "it says that it is larger than the memory"
        raise StoreCorrupt(f"a stored text cannot be unpacked ({said}); `evokernel verify` names it") from error
