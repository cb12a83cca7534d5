"""A week in minutes: a search of many candidates whose engine is killed, starved of disk and failed by its evaluator.

`python benchmarks/soak.py [--candidates 200000] [--seed 0]`

The engine, the islands and the store are the real ones; evaluator and proposer answer at once (see loop.py), the
evaluator with faults of ours and with compilers that take too long. Session follows session on one store. How one ends
is drawn: an orderly stop, SIGKILL, or a disk that takes no more bytes. After each the processes, open files, memory
and temporary files are counted; at the end the store is verified and every step must have come exactly once.
"""

import argparse
import asyncio
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from archive.journal import ResultEntry  # noqa: E402
from archive.store import Store  # noqa: E402
from benchmarks.loop import AtOnce, Marks, config_of, resident_mb, search_on  # noqa: E402
from evokernel.errors import EvokernelError, HarnessError  # noqa: E402
from evokernel.records.evaluation import Evaluation, EvaluationRequest, Stage, Status  # noqa: E402
from evokernel.records.events import Event, ResultCommitted  # noqa: E402

SHORTEST_S, LONGEST_S = 2.0, 25.0
FATES = {"stop": 0.3, "kill": 0.5, "disk": 0.2}
ROOM_BYTES = 6 << 20
"""Space of a full disk beyond the size of the store."""
EVERY = 500


class Faulty(AtOnce):
    """An evaluator with faults of ours and with compilers that take too long, at random."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._rng = random.Random(seed)

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        drawn = self._rng.random()
        if drawn < 0.003:
            raise HarnessError("a worker died before it was given anything")
        found = await super().evaluate(request)
        if drawn < 0.02:
            return Evaluation(
                found.key, found.candidate_id, Status.COMPILE_TIMEOUT, Stage.COMPILE, feedback="took too long"
            )
        return found


class Health:
    """Listener that prints memory, files and threads of this process after every `EVERY` results."""

    def __init__(self) -> None:
        self.count = 0

    def hear(self, event: Event) -> None:
        self.count += isinstance(event, ResultCommitted)
        if isinstance(event, ResultCommitted) and self.count % EVERY == 0:
            files, threads = len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
            line = {"judged": self.count, "memory_mb": resident_mb(), "files": files, "threads": threads}
            print(json.dumps(line), flush=True)


def session(path: Path, candidates: int, seed: int) -> int:
    """Run the engine until it is done or told to stop; 3 where the disk took no more."""
    health = Health()
    try:
        with Store.open(path, write=True) as store:
            search = search_on(store, config_of(candidates), Marks([]), evaluator=Faulty(seed), listeners=[health])
            signal.signal(signal.SIGTERM, lambda *_: search.stop("told to stop"))
            asyncio.run(search.run())
    except EvokernelError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 3
    return 0


@dataclass(frozen=True, slots=True)
class Ended:
    """One session that has ended."""

    leader: int
    """Process id, which is its session id too."""
    fate: str
    """Key of `FATES`."""
    status: int
    """Exit status."""
    seconds: float
    """Its duration."""
    said: dict[str, Any]
    """Last line of figures; empty for none."""
    error: str
    """End of its stderr."""


def one_session(path: Path, candidates: int, rng: random.Random) -> Ended:
    """Run a session that ends as drawn."""
    fate = rng.choices(list(FATES), weights=list(FATES.values()))[0]
    most = path.stat().st_size + ROOM_BYTES if fate == "disk" and path.exists() else resource.RLIM_INFINITY
    command = [sys.executable, __file__, "--session", str(path), "--candidates", str(candidates)]
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as complained:
        process = subprocess.Popen(
            [*command, "--seed", str(rng.randrange(1 << 30))],
            stdout=said,
            stderr=complained,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)),
            start_new_session=True,
        )
        try:
            process.wait(rng.uniform(SHORTEST_S, LONGEST_S))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL if fate == "kill" else signal.SIGTERM)
        status = process.wait()
        said.seek(0)
        complained.seek(0)
        lines = [line for line in said.read().splitlines() if line.endswith("}")]
        last = json.loads(lines[-1]) if lines else {}
        return Ended(process.pid, fate, status, time.monotonic() - began, last, complained.read().strip()[-300:])


def left_behind(leader: int) -> int:
    """Return how many processes of an ended session still run."""
    found = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found += os.getsid(int(entry.name)) == leader
            except ProcessLookupError:
                continue
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidates", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--session", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.session:
        sys.exit(session(given.session, given.candidates, given.seed))
    rng = random.Random(given.seed)
    with tempfile.TemporaryDirectory(prefix="evokernel-soak-") as name:
        path, scratch = Path(name) / "soak.db", Path(name) / "tmp"
        scratch.mkdir()
        os.environ["TMPDIR"] = str(scratch)
        tempfile.tempdir = str(scratch)
        soak(path, given.candidates, rng, scratch)


def soak(path: Path, candidates: int, rng: random.Random, scratch: Path) -> None:
    began, ends, judged = time.monotonic(), dict.fromkeys(FATES, 0), 0
    while judged < candidates:
        ended = one_session(path, candidates, rng)
        ends[ended.fate] += 1
        with Store.open(path, write=False) as store:
            judged = store.spent().steps
        count, left = sum(ends.values()), (len(list(scratch.iterdir())), left_behind(ended.leader))
        print(
            f"{count:4d} {ended.fate:4s} status {ended.status:3d} {ended.seconds:5.1f} s, {judged:7d} judged, "
            f"{ended.said}, {left[0]} temporary files and {left[1]} processes left {ended.error}",
            flush=True,
        )
        if ended.status not in (0, -signal.SIGKILL, 3) or (ended.status == 3 and ended.fate != "disk"):
            raise SystemExit(f"a session ended as none should: {ended}")
    check(path, candidates)
    print(f"{judged} candidates in {sum(ends.values())} sessions ({ends}) and {time.monotonic() - began:.0f} s")


def check(path: Path, candidates: int) -> None:
    """Raise `SystemExit` unless the store is sound and every step came once."""
    with Store.open(path, write=False) as store:
        wrong = store.verify()
        steps = [fact.step for fact in store.facts() if isinstance(fact, ResultEntry)]
        leases = store.open_leases()
    if wrong or leases or len(steps) != len(set(steps)) or len(steps) < candidates:
        raise SystemExit(f"{wrong[:3]}, {len(leases)} leases, {len(steps)} results of {len(set(steps))} steps")


if __name__ == "__main__":
    main()
