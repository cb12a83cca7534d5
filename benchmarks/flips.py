"""Outcomes of random byte flips in the file of a small store: located, refused, harmless or missed.

`python benchmarks/flips.py [N] [--seed S] [--store FILE]`
"""

import argparse
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

from archive.store import Store
from evokernel.errors import StoreError
from evokernel.records.llm import Insight, InsightKind
from evokernel.records.remarks import RemarkKind

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.archive.test_flips import shown
from tests.support.stores import StoreBuilder, fill_store

OUTCOMES = {
    "located": "`verify` says where",
    "refused": "no command opens the file; the error says why",
    "harmless": "all that a command can show is equal",
    "missed": "a value that a command can show differs, and nothing says so",
    "traceback": "an error that is none of ours",
}


def fill(path: Path) -> None:
    """Write a small run with candidates, calls, words of models and of people, remarks and an end."""
    fill_store(path)
    with Store.open(path, write=True) as store:
        store.remarks.add(RemarkKind.MIGRATION, "migration: 2 elites settled on other islands", step=2)
    with StoreBuilder(path.with_name("of_122_steps.db")) as builder:
        name = builder.seed()
        for number in range(120):
            code = "\n".join(f"acc{(line * number) % 97} += a[{line}] * b[{number}];" for line in range(40))
            builder.call(f"```cpp\n{code}\n```", prompt=f"Make kernel {number} faster.")
            name = builder.add(code, speedup=2.0 + number, parents=(name,), operator="mutate", predicted_speedup=1.5)
        builder.insight(Insight(InsightKind.STRATEGY, "tile", "Tile the loops."))
        builder.nothing("no idea")
        builder.say("hint", {"text": "try tiles", "island": "*"})
        builder.store.session_end("enough")


def outcome(path: Path, before: list[str]) -> str:
    """Return the outcome for a flipped file whose sound state showed `before`."""
    try:
        with Store.open(path, write=False) as store:
            if store.verify():
                return "located"
        return "harmless" if shown(path) == before else "missed"
    except StoreError:
        return "refused"
    except Exception as error:  # noqa: BLE001  this is what is counted
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return "traceback"


def flips(store: Path, flipped: Path, *, count: int, rng: random.Random) -> Counter[str]:
    """Change one byte of a store to another value, `count` times, and count the outcomes."""
    sound, before, found = store.read_bytes(), shown(store), Counter[str]()
    for _ in range(count):
        place, other = rng.randrange(len(sound)), rng.randrange(1, 256)
        flipped.write_bytes(sound[:place] + bytes([sound[place] ^ other]) + sound[place + 1 :])
        found[kind := outcome(flipped, before)] += 1
        if kind in ("missed", "traceback"):
            print(f"{store.name}: byte {place} changed by {other:#04x}: {kind}", file=sys.stderr)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=300, help="flips of each store")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--store", type=Path, help="a finished store of yours; two small ones are made without")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if asked.store is None:
            fill(Path(folder) / "of_4_steps.db")
        stores = [asked.store] if asked.store else sorted(Path(folder).glob("*.db"))
        print(f"| store | {' | '.join(OUTCOMES)} |\n|{'---|' * (len(OUTCOMES) + 1)}")
        for store in stores:
            found = flips(store, Path(folder) / "flipped", count=asked.count, rng=random.Random(asked.seed))
            size = f"{store.stat().st_size:,} bytes"
            print(f"| {store.name}, {size} | {' | '.join(f'{found[name]:,}' for name in OUTCOMES)} |", flush=True)
    print("\n" + "\n".join(f"* {name}: {said}." for name, said in OUTCOMES.items()))


if __name__ == "__main__":
    main()
