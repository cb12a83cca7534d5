"""Commits and calls of models per second of the store, at several sizes, and the time of a replay.

`python benchmarks/store_rate.py [SIZE...]`
"""

import argparse
import hashlib
import random
import tempfile
import time
from pathlib import Path

from archive.store import Store
from evokernel.records.candidate import Candidate, Proposal, Usage
from evokernel.records.evaluation import Evaluation, EvaluationKey, Fidelity, Mode, Stage, Status
from evokernel.records.llm import CallStatus, Message, ModelCall, ModelCallResult, Origin
from evokernel.records.timing import Timing, Verdict

LINES = [f"    acc{i} += a[{i} + k * lda] * b[{i} * ldb + k];  // unrolled by {i}" for i in range(60)]


def proposal(step: int, rng: random.Random, known: list[str]) -> Proposal:
    lines = list(LINES)
    for _ in range(6):
        lines[rng.randrange(len(lines))] = f"    acc{rng.randrange(10**9)} = {rng.random()};"
    candidate = Candidate("\n".join(lines), "cpp")
    parents = tuple({rng.choice(known) for _ in range(2)}) if known else ()
    return Proposal(candidate, step, "main", "tune", max(0, step - 8), parents, rationale="raised the tile to 8")


def evaluation(candidate_id: str, program: str, rng: random.Random) -> Evaluation:
    key = EvaluationKey(program, "task0123", "Some CPU", "gcc 12.2 -O3 -march=native", "1", Mode.WORKER, Fidelity.QUICK)
    timings = tuple(
        Timing(f"n{n}", "torch", 1.0, rng.uniform(1, 9), 5.0, rng.gauss(0, 1), 0.01, 20, Verdict.FASTER)
        for n in range(4)
    )
    described = {"registers": 64.0, "spills": 0.0, "vector_width": 8.0}
    metrics = {"gflops": rng.random() * 100, "compile_ms": 120.0, "peak_share": rng.random()}
    return Evaluation(
        key,
        candidate_id,
        Status.OK,
        Stage.QUICK,
        timings,
        {},
        described,
        metrics,
        "12 % of peak; memory bound",
        program,
    )


def fill(store: Store, count: int, rng: random.Random, known: list[str]) -> float:
    first = store.next_step()
    made = [proposal(step, rng, known[-200:]) for step in range(first, first + count)]
    work = []
    for one in made:
        program = hashlib.sha256(one.candidate.source.encode()).hexdigest()[:16]
        work.append((one, program, evaluation(one.candidate.id, program, rng)))
    began = time.perf_counter()
    for one, program, verdict in work:
        if store.find_evaluation(verdict.key) is None:
            store.propose(one, program_hash=program, skeleton=program)
            store.commit(one.step, verdict)
    taken = time.perf_counter() - began
    known += [one.candidate.id for one in made]
    return taken


def call_rate(store: Store, count: int, *, power_safe: bool) -> float:
    """Return how many calls of models can be begun and ended per second; `durable: power` makes them `power_safe`."""
    store.database.power_safe = power_safe
    step, said = store.next_step(), "x" * 4000
    began = time.perf_counter()
    for ordinal in range(count):
        messages = (Message("user", f"{said} {ordinal} {power_safe}"),)
        number = store.calls.begin(
            ModelCall(Origin(step, "main", "mutate"), ordinal, "code", "m", messages, {}, 0, 4000, 0.1)
        )
        store.calls.end(number, ModelCallResult(CallStatus.OK, f"{said} {number}", Usage("m", 2000, 1000, 0.05, 1.0)))
    store.database.power_safe = False
    return count / (time.perf_counter() - began)


def timed(label: str, action) -> None:  # type: ignore[no-untyped-def]
    began = time.perf_counter()
    action()
    print(f"  {label}: {1000 * (time.perf_counter() - began):.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", type=int, nargs="*", default=[0, 10_000, 50_000])
    arguments = parser.parse_args()
    rng = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        path, known = Path(folder) / "run.db", list[str]()
        for size in arguments.sizes:
            with Store.open(path, write=True) as store:
                store.session_start()
                while (missing := size + 1 - store.next_step()) > 0:
                    fill(store, min(missing, 5000), rng, known)
                rate = 2000 / fill(store, 2000, rng, known)
                calls = [call_rate(store, 500, power_safe=safe) for safe in (False, True)]
                print(f"  calls of models: {calls[0]:.0f}/s, {calls[1]:.0f}/s with durable: power")
                print(f"{size} rows: {rate:.0f} propose+commit pairs/s, file {path.stat().st_size / 1e6:.1f} MB")
            timed("open for reading, with the check of the file", lambda: Store.open(path, write=False).close())
            with Store.open(path, write=False) as store:
                timed("replay of every fact", lambda: sum(1 for _ in store.facts()))
                timed("spent", store.spent)
                timed("best 10", lambda: store.best(10))
                timed("curve", store.curve)
                timed("counts", store.counts)
                timed("missing steps", store.missing_steps)


if __name__ == "__main__":
    main()
