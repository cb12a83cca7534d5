"""A month of nights in minutes: the queue of five searches, with faults at every boundary.

`python benchmarks/queue_month.py [--nights 30] [--seed 0] [--faults 0.02]`

The queue, its file, the stores and their locks are the real ones; time is simulated, and a session is a stand-in that
writes to its store what a search would. At each write of the queue's file and at each wait the queue may be killed,
the machine may reboot, the disk may refuse every byte for a while (RLIMIT_FSIZE), the clock may be set back, the GPU
may fall off. Sessions are killed, hang, crash, find a full disk or a provider that does not answer. After each night
every result and every dollar in the stores must be counted once, no budget may be passed, and each entry must have had
its start.
"""

import argparse
import functools
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from archive.store import Store
from benchmarks.loop import resident_mb
from evokernel.config.session_budget import SESSION_LIMIT
from evokernel.errors import StoreError
from evokernel.queue.clock import QueueClock
from evokernel.queue.file import QueueFile
from evokernel.queue.records import EntryState, QueueNight, SharedBudget
from evokernel.queue.runner import QueueRunner
from evokernel.queue.session import ChildSession, ChildSessions
from tests.support.stores import StoreBuilder

HOUR = 3600.0
LOOK_S = 20.0
GRACE_S = 120.0
NIGHT_HOURS, SESSION_HOURS, DOLLARS = 9.0, 8.0, 10.0
FAULTS = {"kill": 4, "reboot": 2, "disk": 2, "clock": 1, "gpu": 1}
FATES = {"fine": 70, "killed": 5, "silent": 5, "full": 5, "stuck": 3, "crash": 4, "gpu": 4, "slow": 4}
CONFIG = (
    "task: gemm\ndevice: {device}\nbudget: {{hours: 10000}}\n{models}islands: [{{name: one, operators: {{tune: 1}}}}]\n"
)
MODELS = "models: [{name: main, model: openai/gpt-5}]\n"
SEARCHES = {
    "plain": ("cpu", ""),
    "other": ("cpu", ""),
    "asking": ("cpu", MODELS),
    "gpu": ("cuda", ""),
    "wise": ("cuda", MODELS),
}


class Killed(BaseException):
    """The queue's process was killed here."""


@dataclass
class World(QueueClock, ChildSessions):
    """Time, devices and faults."""

    rng: random.Random
    faults: float
    """Probability of a fault at a boundary."""
    t: float = 0.0
    """True time, in s."""
    booted: float = 0.0
    skew: float = 0.0
    """What the clock shows beyond the true time."""
    disk_full_until: float = 0.0
    gpu_back_at: float = 0.0
    sessions: list["StandIn"] = field(default_factory=list)
    """Those that run."""
    counts: Counter[str] = field(default_factory=Counter)
    occupied: float = 0.0
    """Seconds of sessions in this night."""

    # -- the clock of the queue

    def now(self) -> float:
        return 1.8e9 + self.t + self.skew

    def elapsed(self) -> float:
        return self.t - self.booted

    def rest(self, seconds: float) -> None:
        self.boundary("rest", 0.2)
        self.t += seconds
        for session in list(self.sessions):
            session.advance()

    def wake(self) -> None:
        raise AssertionError("nobody stops this queue")

    # -- devices and faults

    def gpus(self) -> int:
        return int(self.t >= self.gpu_back_at)

    def start(self, command: Sequence[str], *, log: Path, mark: str) -> "StandIn":
        self.boundary("before start")
        session = StandIn(self, command, mark)
        self.boundary("after start")
        return session

    def left(self, process: str, *, store: Path, mark: str) -> str:
        return mark if any(session.process == mark for session in self.sessions) else ""

    def send(self, process: str, number: signal.Signals) -> None:
        for session in list(self.sessions):
            if session.process == process:
                session.signal(number)

    def boundary(self, name: str, share: float = 1.0) -> None:
        """A place where a fault may happen."""
        if self.rng.random() >= self.faults * share:
            return
        fault = self.rng.choices(list(FAULTS), weights=list(FAULTS.values()))[0]
        self.counts[fault] += 1
        self.counts[f"at {name}"] += 1
        match fault:
            case "kill":
                for session in self.sessions:
                    session.signal(signal.SIGTERM)  # as PR_SET_PDEATHSIG does
                raise Killed
            case "reboot":
                for session in list(self.sessions):
                    session.end(-signal.SIGKILL)
                self.t += 90
                self.booted = self.t
                raise Killed
            case "disk":
                self.disk_full_until = self.t + self.rng.uniform(30, 1200)
            case "clock":
                self.skew -= self.rng.uniform(0.5, 6) * HOUR
            case "gpu":
                self.gpu_back_at = self.t + self.rng.uniform(0.2, 2) * HOUR


class StandIn(ChildSession):
    """A session that needs no time of ours: it writes its results when it ends."""

    def __init__(self, world: World, command: Sequence[str], mark: str) -> None:
        self.process = mark
        words = list(command)
        self._world, self._path = world, Path(words[words.index("--store") + 1])
        self._hours = float(words[words.index("--session-hours") + 1])
        paid = "--session-dollars"
        self._dollars = float(words[words.index(paid) + 1]) if paid in words else None
        self._config = Path(words[words.index("evolve") + 1])
        self._began, self._said = world.t, ""
        self._code: int | None = None
        self._builder: StoreBuilder | None = None
        fates = {name: weight for name, weight in FATES.items() if name != "gpu" or self._on_gpu}
        self._fate = world.rng.choices(list(fates), weights=list(fates.values()))[0]
        world.counts[f"session {self._fate}"] += 1
        world.sessions.append(self)
        try:
            builder = StoreBuilder(self._path)
        except StoreError as error:
            self._ends = world.t + 5
            self._plan = (75, f"Error: {error}")
            return
        self._builder = builder
        builder.store.set_meta("config", self._config.read_text())
        begins = world.rng.uniform(5, 30)
        left = max(0.0, self._hours * HOUR - builder.store.seconds_before())
        self._ends = self._began + begins + left + world.rng.uniform(0, 60)
        self._plan = (0, "")
        early = self._began + world.rng.uniform(0, left)
        match self._fate:
            case "killed":
                self._ends, self._plan = early, (-signal.SIGKILL, "")
            case "crash":
                self._ends, self._plan = early, (1, "Traceback (most recent call last):\nMemoryError")
            case "full":
                self._ends, self._plan = self._began + begins, (75, "Error: the disk is full")
            case "gpu":
                self._ends, self._plan = early, (75, "Error: the runner died")
            case "stuck":
                self._ends = float("inf")

    @property
    def _on_gpu(self) -> bool:
        return "device: cuda" in self._config.read_text()

    def advance(self) -> None:
        if self._code is None and self._world.t >= self._ends:
            self.end(self._plan[0])

    def poll(self) -> int | None:
        return self._code

    def signal(self, number: signal.Signals) -> None:
        if self._code is not None:
            return
        if number is signal.SIGKILL:
            self.end(-signal.SIGKILL)
        elif self._fate != "stuck" or self._world.sessions[-1] is not self:
            ends = self._world.t + (40 if self._fate == "slow" else 5)
            if ends < self._ends:
                self._ends, self._plan = ends, (143, "")
        else:
            self._fate = "slow"  # a second signal ends it at once

    def said(self) -> str:
        return self._said

    def end(self, code: int) -> None:
        """Write what it found, and end."""
        world = self._world
        self._code, self._said = code, self._plan[1]
        world.sessions.remove(self)
        world.occupied += world.t - self._began
        if self._fate == "gpu" and code == 75:
            world.gpu_back_at = world.t + world.rng.uniform(0.1, 1) * HOUR
        if self._builder is None:
            return
        with self._builder as builder:
            length = world.t - self._began
            self._find(builder, length)
            if code == 0:
                stop = f"{SESSION_LIMIT} of {self._hours:g} h used"
                builder.store.session_end(stop, seconds=length)
            elif code == 143:
                builder.store.session_end("stopped by SIGTERM", seconds=length)
            else:
                builder.store.heartbeat(max(0.0, length - world.rng.uniform(0, 1)))

    def _find(self, builder: StoreBuilder, length: float) -> None:
        rng, store = self._world.rng, builder.store
        if self._fate in ("silent", "full") or length < 60:
            return
        for _ in range(rng.randint(1, 3)):
            step = store.next_step()
            builder._step = step
            if self._dollars is not None:
                left = self._dollars - store.paid().cost_usd
                price = rng.uniform(0, 0.8)
                if price <= left:
                    builder.call(f"reply {step}", cost_usd=price)
            if step == 0:
                builder.seed(source=f"// {self._path}\n")
            else:
                speed = 1 + 10 * (1 - 0.9**step) * rng.uniform(0.8, 1)
                builder.add(f"// {self._path} {step}\n", speedup=speed)


def faulty(world: World, name: str) -> Callable[..., Any]:
    """Return a method of `QueueFile` with a fault before or after it, on a disk that may be full."""
    real = getattr(QueueFile, name)

    @functools.wraps(real)
    def method(self: QueueFile, *values: Any, **named: Any) -> Any:
        world.boundary(f"before {name}")
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        if world.t < world.disk_full_until:
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
        try:
            done = real(self, *values, **named)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        world.boundary(f"after {name}")
        return done

    return method


def open_queue(world: World, path: Path) -> QueueFile:
    """Open the queue with faults at each write."""
    names = ("begin_slice", "beat", "end_slice", "note", "end_night")
    faulted: Any = type("FaultyQueue", (QueueFile,), {name: faulty(world, name) for name in names})
    queue: QueueFile = faulted.open(path)
    return queue


def totals(stores: Sequence[Path]) -> dict[Path, tuple[int, float]]:
    """Return results and dollars of each store."""
    found = dict.fromkeys(stores, (0, 0.0))
    for path in stores:
        if path.exists():
            with Store.open(path, write=False) as store:
                found[path] = store.spent().steps, store.spent().cost_usd
    return found


class Month:
    """Nights one after the other, in a folder."""

    def __init__(self, folder: Path, *, seed: int, faults: float) -> None:
        self.world = World(random.Random(seed), faults)
        self.queue = folder / "queue.sqlite"
        self.said: list[str] = []
        self.configs = []
        for name, (device, models) in SEARCHES.items():
            config = folder / f"{name}.yaml"
            config.write_text(CONFIG.format(device=device, models=models))
            self.configs.append((config, folder / f"{name}.db", ()))
        self.stores = [store for _, store, _ in self.configs]

    def night(self) -> str:
        """Run one night, check it, and return a line on it."""
        world, before, starts = self.world, totals(self.stores), Counter(self.world.counts)
        world.occupied, began, sessions = 0.0, world.t, 0
        with QueueFile.open(self.queue, create=True) as plain:
            budget = SharedBudget(until=world.now() + NIGHT_HOURS * HOUR, hours=SESSION_HOURS, dollars=DOLLARS)
            night = plain.add(self.configs, budget, at=world.now())
        kills = 0
        while True:
            sessions += 1
            try:
                with open_queue(world, self.queue) as queue:
                    runner = QueueRunner(
                        queue,
                        say=self.said.append,
                        grace_s=GRACE_S,
                        look_s=LOOK_S,
                        host=world,
                        clock=world,
                        gpus=world.gpus,
                    )
                    runner.run()
                break
            except Killed:
                kills += 1
                world.t += 30  # until it is started again
        self.said = self.said[-200:]
        self.check(night, before, kills)
        faults = {name: world.counts[name] - starts[name] for name in FAULTS}
        hours, length = world.occupied / HOUR, (world.t - began) / HOUR
        return f"{hours:.2f} h of sessions in {length:.2f} h, {faults}"

    def check(self, night: QueueNight, before: dict[Path, tuple[int, float]], kills: int) -> None:
        """Raise `SystemExit` unless the night was as it must be."""
        world, after = self.world, totals(self.stores)
        with QueueFile.open(self.queue) as queue:
            assert not queue.nights(running=True)
            assert not queue.open_slices(), "a slice was lost"
            dollars = 0.0
            for entry in queue.entries(night.id):
                results = int(queue.database.number("SELECT sum(results) FROM slices WHERE entry = ?", (entry.id,)))
                use, store = queue.use_of(entry.id), entry.store
                found, paid = after[store][0] - before[store][0], after[store][1] - before[store][1]
                dollars += paid
                assert results == found, f"{entry.config.stem}: {results} of {found} results counted"
                assert abs(use.dollars - paid) < 1e-6, f"{entry.config.stem}: ${use.dollars} of ${paid} counted"
                assert found, f"{entry.config.stem} had no start: {entry.reason}"
                assert entry.state is EntryState.DONE, entry
        assert dollars <= DOLLARS + 1e-9, f"${dollars} spent"
        most = SESSION_HOURS * HOUR + kills * GRACE_S
        assert world.occupied <= most, f"{world.occupied} s of sessions, {most} at most"
        assert not world.sessions


def figures(folder: Path) -> dict[str, float]:
    """Return memory, open files, files in the folder, and the size of the queue."""
    return {
        "memory_mb": resident_mb(),
        "open": len(os.listdir("/proc/self/fd")),
        "files": len(list(folder.rglob("*"))),
        "queue_kb": (folder / "queue.sqlite").stat().st_size // 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nights", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--faults", type=float, default=0.02, help="probability of a fault at a boundary")
    given = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="evokernel-month-") as name:
        month = Month(Path(name), seed=given.seed, faults=given.faults)
        for night in range(1, given.nights + 1):
            print(f"night {night}: {month.night()}, {figures(Path(name))}", flush=True)
        for store in month.stores:
            with Store.open(store, write=False) as opened:
                assert not opened.verify(), store
        results = sum(found for found, _ in totals(month.stores).values())
    print(f"{dict(sorted(month.world.counts.items()))}")
    print(f"{results} results, each counted once, in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
