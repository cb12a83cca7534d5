"""A C++ kernel against itself, through the whole clock of a processor: how far from 1.000x is what the judge says?

`python benchmarks/noise.py [--repeats 200] [--budget 1.0] [--quiet] [--bare]`. Candidate and baseline are the same
machine code in two workers, so the truth is 1 exactly. A process that this one starts keeps the judge's core busy all
the time (`--quiet` leaves it out). Contents, poison and the comparison of every output are part of it, as in a search.

`--bare` says how much of the error is the machine's: in turn with the judge's measurements the same number of calls is
made on the same buffers by a thread of this process that reads its own clock. There is no other process to wake or to
stop, nothing is compared, and the names candidate and baseline are arbitrary.
"""

import argparse
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import cast

from errors import in_turn

from evokernel.config.run import EvaluationConfig
from evokernel.evaluate.bench.baseline_timing import BaselineTimer
from evokernel.evaluate.bench.bench import Bench
from evokernel.evaluate.bench.candidate_session import WorkerSession
from evokernel.evaluate.bench.paired_clock import CheckedCall
from evokernel.evaluate.bench.setup import BenchSetup
from evokernel.evaluate.bench.worker_clock import WorkerClock
from evokernel.evaluate.bench.workload import BoundWorkload
from evokernel.evaluate.build.confined_compilers import local_language
from evokernel.evaluate.device.cores import share_out
from evokernel.evaluate.inside.process.seal import PR_SET_PDEATHSIG, prctl
from evokernel.evaluate.judge.checks import check
from evokernel.evaluate.judge.cpu_bench import CpuBench, CpuWorkers, open_cpu_bench
from evokernel.evaluate.numerics.statistics import CounterbalancedBlock
from evokernel.evaluate.numerics.timed_inputs import FreshInputs
from evokernel.evaluate.worker_mode.baseline_process import BaselineProcess
from evokernel.evaluate.worker_mode.expert_loop import CompiledLoop
from evokernel.records.build import Built
from evokernel.records.evaluation import Stage
from evokernel.task import Task

ROOT = Path(__file__).parents[1]
MUSEUM = ROOT / "tests" / "museum"
SUBJECTS = (
    ("sum 128x512", str(MUSEUM / "tasks" / "sum.py"), MUSEUM / "honest" / "cpp" / "sum_lanes.cpp", 0),
    ("gemm 96x128x64", str(MUSEUM / "tasks" / "gemm.py"), MUSEUM / "honest" / "cpp" / "gemm_plain.cpp", 0),
    ("softmax 2048x256", "softmax", MUSEUM / "honest" / "cpp" / "softmax_polynomial.cpp", 2),
)
"""Label, task, kernel, and index of the search workload."""
CORES = tuple(sorted(os.sched_getaffinity(0)))
BATCH_S = 0.003


def open_bench(task: str) -> AbstractContextManager[CpuBench]:
    """Set a judge up in this process, as long as the context is entered."""
    os.sched_setaffinity(0, CORES)
    (cores,) = share_out(CORES, device="cpu", threads=1)
    return open_cpu_bench(
        BenchSetup.from_message(
            {
                "task": task,
                "settings": EvaluationConfig().model_dump(mode="json"),
                "threads": 1,
                "cores": asdict(cores),
                "admit": False,
                "final": False,
            }
        )
    )


def workers_of(bench: Bench) -> CpuWorkers:
    """Return the workers of a CPU bench."""
    assert isinstance(bench.workers, CpuWorkers)
    return bench.workers


class Bare:
    """Calls of one kernel in a thread of this process, in blocks as the judge's. A context manager."""

    def __init__(self, bench: Bench, artifact: bytes, bound: BoundWorkload, fresh: FreshInputs) -> None:
        self._bound, self._fresh, self._rng = bound, fresh, bench.rng
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            file.write(artifact)
            file.flush()
            self._loop = CompiledLoop(file.name, str(workers_of(bench).pool.trampoline.path), bench.task.signature)
        self._sets = [bound.call_arguments(each) for each in range(bound.sets)]
        self._batch = self._loop.prepare(bound.name, self._sets, first=0, calls=bound.calls)
        own_core = (0, workers_of(bench).pool.limits.cpus)
        self._thread = ThreadPoolExecutor(1, initializer=os.sched_setaffinity, initargs=own_core)

    def __enter__(self) -> "Bare":
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown()

    def block(self) -> CounterbalancedBlock:
        """Time the same batch four times, on new contents after the second."""
        halves = self._half(), self._half()
        if self._rng.integers(2):  # which of the two is called the one with the baseline first, as the judge draws it
            halves = halves[::-1]
        (first, second), (third, fourth) = halves
        clock_s = (first + second + third + fourth) * self._bound.calls / 1e9
        return CounterbalancedBlock((first, fourth), (second, third), clock_s)

    def _half(self) -> tuple[float, float]:
        calls = self._bound.calls
        self._do(lambda: self._loop.warm(self._sets[-1]))
        self._fresh.fill_sets(self._bound.all_inputs(), self._fresh.draw_windows(calls))
        self._bound.poison_all(calls)
        first = self._do(self._batch)
        self._bound.poison_all(calls)
        return first / calls, self._do(self._batch) / calls

    def _do(self, work: Callable[[], object]) -> int:
        """Run work in the thread; return its CPU time in ns."""

        def timed() -> int:
            begin = time.thread_time_ns()
            work()
            return time.thread_time_ns() - begin

        return self._thread.submit(timed).result()


def build(source: Path, task: Task) -> bytes:
    """Compile a kernel."""
    made = local_language("cpp", EvaluationConfig()).build(source.read_text(encoding="utf-8"), task)
    if not isinstance(made, Built):
        raise SystemExit(made.message)
    return made.artifact


def study(
    task: str, source: Path, *, workload: int, budget_s: float, repeats: int, bare: bool
) -> dict[str, dict[str, float]]:
    """Measure a kernel against itself on one workload; errors in percent of the judge, and of a bare thread."""
    with open_bench(task) as opened:
        bench = opened.bench
        artifact = build(source, bench.task)
        candidate, itself = (WorkerSession(bench, artifact, "") for _ in range(2))
        outcome = check(candidate, None, thoroughly=False)
        if outcome.status is not None:
            raise SystemExit(outcome.feedback)
        bound = bench.timed[workload]
        in_its_place = cast(BaselineProcess, itself.worker)  # has the methods of one that are used here
        mirror = BaselineTimer(in_its_place, batch_s=BATCH_S, first_call_s=120.0)
        bench.workers = replace(workers_of(bench), baselines=mirror)
        call_s = _size_batches(bound, mirror)
        bound.attach(candidate.worker, set())
        fresh = FreshInputs(bound.task, bound.workload, bench.rng)
        mirror.measure_wake_in_place(bound, fresh)
        checked = CheckedCall(1e9 * call_s, lambda: 1e9 * call_s)
        clock = WorkerClock(bench, candidate.worker, bound, fresh, stage=Stage.PRECISE, checked=checked)
        clock.block()
        with Bare(bench, artifact, bound, fresh) as thread:
            sources = {"judge": clock.block, "bare": thread.block} if bare else {"judge": clock.block}
            rows = in_turn(sources, budget_s, repeats, systematic={"judge": clock.systematic_error})
        return {name: {"calls": bound.calls, **row} for name, row in rows.items()}


def _size_batches(bound: BoundWorkload, side: BaselineTimer) -> float:
    """Make batches as long as a search's would be, had the kernel no faster baseline; returns s of a call."""
    side.attach(bound)
    side.measure_wake(bound)
    times = [side.process.call(bound.name, first_set=0, calls=1, timeout_s=20.0) for _ in range(5)]
    call_s = max(min(times) - side.wake_ns(bound), 1e3) / 1e9
    bound.calls = max(1, min(round(BATCH_S / call_s + 0.5), 512, (64 << 20) // bound.set_bytes - 1))
    bound.resize(bound.calls + 1)
    side.attach(bound)
    side.measure_wake(bound)
    return call_s


@contextmanager
def neighbour(cores: Sequence[int]) -> Iterator[None]:
    """Keep some cores busy with a process of its own, as long as this is entered."""
    process = multiprocessing.Process(target=_burn, args=(tuple(cores),), daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def _burn(cores: Sequence[int]) -> None:
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.sched_setaffinity(0, cores)
    while True:
        sum(range(100_000))


def main() -> None:
    """Measure as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--budget", type=float, default=1.0, help="clock time of a measurement, in s")
    parser.add_argument("--quiet", action="store_true", help="leave the other core alone")
    parser.add_argument("--bare", action="store_true", help="the same calls in a thread of one process, in turn")
    parser.add_argument("--only", default="", help="a part of the name of the kernel to measure")
    given = parser.parse_args()
    (cores,) = share_out(CORES, device="cpu", threads=1)
    print(f"{given.repeats} times {given.budget:g} s, {'alone' if given.quiet else f'core {cores.judge} busy'}")
    print(
        f"{'kernel':20} {'clock':5} {'us':>8} {'calls':>5} {'p50 %':>7} {'p90 %':>7} {'max %':>7} {'mean %':>7} "
        f"{'held':>5}  wall s"
    )
    with nullcontext() if given.quiet else neighbour(cores.judge):
        for name, task, source, workload in (each for each in SUBJECTS if given.only in each[0]):
            rows = study(task, source, workload=workload, budget_s=given.budget, repeats=given.repeats, bare=given.bare)
            for clock, row in rows.items():
                errors = " ".join(f"{row[key]:7.3f}" for key in ("p50", "p90", "max", "mean"))
                held, wall_s = row["interval_holds_1"], row["wall_ms"] / 1e3
                call = f"{row['us']:8.1f} {row['calls']:5}"
                print(f"{name:20} {clock:5} {call} {errors} {held:5.2f} {wall_s:7.2f}", flush=True)


if __name__ == "__main__":
    main()
