"""Candidates per second through the whole loop, with an evaluator and a proposer that answer at once.

`python benchmarks/loop.py [--sizes 1000 10000 100000] [--peers VENV] [--profile]`

Ours: the real engine and islands, the real hash of C++ programs, the store on disk. What is left out is what a search
waits for: compilers, the device, models. Each candidate is a new program of 2 to 6 KB, a child of one parent. Printed
are the rate up to each size (over its last tenth), the memory of the process, bytes of the file for each candidate,
and how long a fresh process takes from an open file to its next proposal.

`--peers VENV` runs OpenEvolve and evotoolkit beside it, three minutes each, from a virtual environment that has them
(`pip install openevolve==0.4.0 evotoolkit==2.0.0`), with programs of the same size from a model that answers at once.
"""

import argparse
import asyncio
import cProfile
import json
import math
import os
import pstats
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Self

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from archive.grid import GridArchive  # noqa: E402
from archive.store import Store  # noqa: E402
from benchmarks.peers.programs import make_program  # noqa: E402
from evokernel.config.load import parse_config  # noqa: E402
from evokernel.config.run import RunConfig  # noqa: E402
from evokernel.engine.search import Search  # noqa: E402
from evokernel.engine.search_run import Parts  # noqa: E402
from evokernel.engine.stoppers import stopper_from  # noqa: E402
from evokernel.protocols import Evaluator, Listener, Operator  # noqa: E402
from evokernel.records.candidate import Candidate  # noqa: E402
from evokernel.records.evaluation import (  # noqa: E402
    Evaluation,
    EvaluationRequest,
    EvaluatorIdentity,
    Mode,
    Stage,
    Status,
)
from evokernel.records.events import Event, ProposalCommitted, ResultCommitted  # noqa: E402
from evokernel.records.step import Context, Draft, OperatorKind  # noqa: E402
from evokernel.records.timing import Timing, Verdict  # noqa: E402
from evokernel.task import Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet  # noqa: E402
from islands.archipelago import Archipelago, ArchipelagoSettings  # noqa: E402
from islands.elite_selectors import RankSelector  # noqa: E402
from islands.island import Island  # noqa: E402
from islands.topology import ring  # noqa: E402

TASK = Task(
    name="copy",
    reference=lambda x, **_: x,
    signature=Signature((Tensor("x", ("N",)),), (Scalar("N"),), (Tensor("y", ("N",), role=Role.OUTPUT),)),
    workloads={"cpu": WorkloadSet((Workload("w", {"N": 8}),), (Workload("h", {"N": 9}),), {"N": (1, 9)})},
    flops="N",
)
IN_FLIGHT = 8
PEER_S = 180
WORKLOADS = ("square", "wide", "deep")
SEED = Candidate(make_program(0, "cpp"), "cpp")


class AtOnce:
    """An evaluator that answers at once: the seed and most others are right, speed-ups are drawn from the text."""

    def __init__(self) -> None:
        self.identity = EvaluatorIdentity(
            "loop", "some device", "some compiler -O3", "1", Mode.WORKER, {"peak_gflops": 100.0}, "none"
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        await asyncio.sleep(0)
        key = self.identity.key(request.program_hash, request.budget)
        rng = random.Random(request.program_hash)
        if rng.random() < 0.2 and request.candidate != SEED:
            return Evaluation(key, request.candidate.id, Status.NUMERICAL, Stage.CORRECTNESS, feedback="tail columns")
        speed = 1 + rng.random() ** 4
        timings = tuple(
            Timing(name, "torch", 1.0, 100 / speed, 100.0, math.log(speed), 0.004, 20, Verdict.FASTER, 40.0)
            for name in WORKLOADS
        )
        descriptor = {
            "vector_bits": rng.choice((128.0, 256.0, 512.0)),
            "spills": float(rng.randrange(20)),
            "code_bytes": rng.uniform(500, 8000),
        }
        metrics = {"compile_ms": 120.0, "check_s": 0.03, "time_s": 0.2, "gflops": 40 * speed}
        return Evaluation(
            key, request.candidate.id, Status.OK, Stage.QUICK, timings, {}, descriptor, metrics, "40 % of the limit"
        )


class HashedText:
    """C++ as far as the loop needs it: the hash of a program."""

    name, suffix, syntax, environment = "cpp", ".cpp", "cpp", "some compiler -O3"

    def warm(self) -> None:
        return None

    def program_hash(self, source: str) -> str:
        return Candidate(source, self.name).id

    def static_check(self, source: str) -> str | None:
        return None

    def build(self, source: str, task: Task, *, hidden: Any = ()) -> Any:
        raise NotImplementedError("nothing is built here")

    def build_checked(self, source: str, task: Task) -> None:
        return None

    def guide(self, task: Task) -> str:
        return ""


class Write(Operator):
    """A proposer that answers at once with a new program."""

    kind = OperatorKind.RULE

    def __init__(self, name: str, *, parents: int) -> None:
        self.name = name
        self.parents = parents

    async def propose(self, context: Context) -> Draft:
        parents = tuple(elite.candidate.id for elite in context.parents)
        rationale = f"unroll: the loop over k by {context.step % 8 + 1}"
        return Draft(make_program(context.step, "cpp"), parents=parents, rationale=rationale)


class Marks:
    """Listener that notes time and memory at given numbers of candidates."""

    def __init__(self, sizes: list[int]) -> None:
        self.count = 0
        self.first_proposal: float | None = None
        self.reached: dict[int, tuple[float, float]] = {}
        self._wanted = {mark for size in sizes for mark in (size - size // 10, size)}

    def hear(self, event: Event) -> None:
        if isinstance(event, ProposalCommitted) and self.first_proposal is None:
            self.first_proposal = time.perf_counter()
        self.count += isinstance(event, ResultCommitted)
        if self.count in self._wanted and self.count not in self.reached:
            self.reached[self.count] = (time.perf_counter(), resident_mb())


def resident_mb() -> float:
    """Return the memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def config_of(evaluations: int) -> RunConfig:
    """Return the config of a search on three islands."""
    operators = {"mutate": 0.7, "crossover": 0.3}
    islands = [{"name": name, "operators": operators} for name in ("one", "two", "three")]
    raw = {"task": "copy", "budget": {"evaluations": evaluations}, "islands": islands, "in_flight": IN_FLIGHT}
    return parse_config(raw, "benchmark").on("cpu")


def archipelago_of(config: RunConfig, operators: dict[str, Operator]) -> Archipelago:
    """Return empty islands; the assembly of a real search would import torch, which is no part of the loop."""
    islands = [
        Island(each.name, each.operators, GridArchive(each.niches.axes), RankSelector(each.selector.pressure))
        for each in config.islands
    ]
    rules = ArchipelagoSettings(migrate_every=config.migration.every, reset_after=config.reset_after)
    names = [island.name for island in islands]
    return Archipelago(islands, ring(names), operators=operators, seed=config.seed, rules=rules)


def search_on(
    store: Store,
    config: RunConfig,
    marks: Marks,
    *,
    evaluator: AbstractAsyncContextManager[Evaluator] | None = None,
    listeners: Sequence[Listener] = (),
) -> Search:
    """Return an engine whose evaluator and proposers answer at once."""
    operators: dict[str, Operator] = {name: Write(name, parents=1) for name in ("mutate", "crossover")}
    parts = Parts(
        task=TASK,
        language=HashedText(),
        store=store,
        archipelago=archipelago_of(config, operators),
        evaluator=evaluator or AtOnce(),
        stopper=stopper_from(config.budget),
        listeners=[marks, *listeners],
    )
    return Search(parts, config=config, seeds=[SEED], in_flight=config.in_flight)


def fill(path: Path, sizes: list[int], *, profiled: bool) -> list[dict[str, float]]:
    """Run a search up to the largest size; return the figures at each."""
    marks, config = Marks(sizes), config_of(max(sizes))
    profiler = cProfile.Profile()
    with Store.open(path, write=True) as store:
        search = search_on(store, config, marks)
        if profiled:
            profiler.enable()
        asyncio.run(search.run())
        profiler.disable()
    if profiled:
        pstats.Stats(profiler, stream=sys.stderr).sort_stats("tottime").print_stats(35)
    found = []
    for size in sizes:
        begin, end = marks.reached[size - size // 10], marks.reached[size]
        found.append({"size": size, "per_s": (size // 10) / (end[0] - begin[0]), "memory_mb": end[1]})
    found[-1]["bytes_each"] = path.stat().st_size / max(sizes)
    return found


def resume(path: Path) -> dict[str, float]:
    """Open a filled store, go on by one candidate, and return the times from the open on."""
    marks = Marks([])
    began = time.perf_counter()
    with Store.open(path, write=True) as store:
        config = config_of(store.spent().evaluations + 1)
        opened = time.perf_counter()
        asyncio.run(search_on(store, config, marks).run())
    first = marks.first_proposal or math.nan
    return {"resume_s": first - began, "open_s": opened - began, "memory_mb": resident_mb()}


def peers(venv: Path, folder: Path, seconds: int) -> list[dict[str, Any]]:
    """Run each peer for `seconds`; return its figures."""
    found = []
    for name in ("openevolve", "evotoolkit"):
        command = [str(venv / "bin/python"), str(HERE / "peers" / f"{name}_run.py"), str(folder / name), str(seconds)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        last = done.stdout.strip().splitlines()[-1:] or ["{}"]
        found.append(
            {"name": name, **json.loads(last[0])}
            if done.returncode == 0
            else {"name": name, "failed": done.stderr[-400:]}
        )
    return found


def fresh(*arguments: str) -> Any:
    """Run a part in a process of its own, so that memory is its own, and return what it prints."""
    done = subprocess.run([sys.executable, __file__, *arguments], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--peers", type=Path, metavar="VENV", help="a virtual environment with the peers")
    parser.add_argument("--peer-seconds", type=int, default=PEER_S)
    parser.add_argument("--profile", action="store_true", help="say where the time goes, on stderr")
    parser.add_argument("--fill", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--resume", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    sizes = sorted(given.sizes)
    if given.fill:
        print(json.dumps(fill(given.fill, sizes, profiled=given.profile)))
        return
    if given.resume:
        print(json.dumps(resume(given.resume)))
        return
    with tempfile.TemporaryDirectory(prefix="evokernel-loop-") as name:
        folder, rows = Path(name), []
        for size in sizes:
            path = folder / f"{size}.db"
            upto = [each for each in sizes if each <= size]
            profile = ["--profile"] if given.profile and size == sizes[-1] else []
            row = fresh("--fill", str(path), "--sizes", *map(str, upto), *profile)[-1]
            rows.append(row | {"resume": fresh("--resume", str(path))})
            show(rows[-1])
            path.unlink()
        for peer in peers(given.peers, folder, given.peer_seconds) if given.peers else []:
            print(json.dumps(peer))


def show(row: dict[str, Any]) -> None:
    """Print one line for one size."""
    again = row["resume"]
    print(
        f"evokernel {row['size']:>7} candidates: {row['per_s']:6.0f} a second, {row['memory_mb']:4.0f} MB, "
        f"{row['bytes_each']:5.0f} bytes each; resumed in {again['resume_s']:.2f} s with {again['memory_mb']:.0f} MB",
        flush=True,
    )


if __name__ == "__main__":
    main()
