"""Stored texts: any thread may pack and unpack them."""

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from archive.file.texts import unpack
from archive.store import Store

THREADS = 8


def test_threads_unpack_texts_at_once(tmp_path: Path) -> None:
    """The server's threads do so, beside the one that reads the store's facts."""
    chance = random.Random(0)
    texts = ["".join(chance.choices("abcdefgh {}();\n", k=12_000)) for _ in range(THREADS)]
    with Store.open(tmp_path / "run.db", write=True) as store:
        digests = [store.put_text(text) for text in texts]
        rows = {row["hash"]: row["body"] for row in store.database.rows("SELECT hash, body FROM texts")}
    bodies = [bytes(rows[digest]) for digest in digests]

    def read(start: int) -> bool:
        turns = [(start + turn) % len(texts) for turn in range(1500)]
        return all(unpack(bodies[turn]) == texts[turn] for turn in turns)

    with ThreadPoolExecutor(THREADS) as pool:
        assert all(pool.map(read, range(THREADS)))
