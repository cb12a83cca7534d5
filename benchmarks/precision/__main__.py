"""A kernel against itself, through the whole clock: how far from 1.000x is what the judge says?

`python benchmarks/precision [--repeats 100] [--long 20] [--slower] [TASK ...]`. The baseline is the kernel launched by
Triton's own launcher in the judge (of those in CUDA C++: compiled and launched by nvcc), the candidate is its recording
in the runner, so the figures are also those of artifact mode against the real launchers. Refill, poison and
verification are in the budgets. Beside it two medians of `triton.testing.do_bench` with the same GPU time in all.
`--slower` times a kernel that does 0.2 % more work; `--processes 5` compares fresh processes.
"""

import argparse
import json
import math
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from errors import percentiles, repeat  # noqa: E402
from gpu_judge import ALL_CORES, Workbench, read  # noqa: E402

from evokernel.evaluate.artifact_mode.clock import ArtifactClock  # noqa: E402
from evokernel.evaluate.bench.paired_clock import Rejected  # noqa: E402
from evokernel.evaluate.bench.workload import BoundWorkload, WorkloadPurpose  # noqa: E402
from evokernel.evaluate.judge.checks import check  # noqa: E402
from evokernel.evaluate.numerics.statistics import StoppingRule, measure  # noqa: E402
from evokernel.evaluate.numerics.timed_inputs import FreshInputs  # noqa: E402
from evokernel.records.evaluation import Stage  # noqa: E402

TASKS = {
    "add": "add.py",
    "softmax": "softmax.py",
    "gemm": "gemm.py",
    "gemm_tma": "gemm_tma.py",
    "cuda_add": "add.cu.py",
    "cuda_scale": "scale.cu.py",
}
SHORT_S, LONG_S = 0.06, 1.0
BLOCKS = 12
"""For the quotient of the baseline's times before and after the candidate; other load makes it differ from 1."""


def do_bench(bound: BoundWorkload, baseline: Any, budget_s: float, times: int) -> dict[str, float]:
    """Return the error of the quotient of two of Triton's medians that take so much GPU time together."""
    from triton.testing import do_bench as triton_bench

    inputs, outputs = bound.call_arguments(0)
    each_ms = 1e3 * budget_s / 2

    def once() -> float:
        time_ms = triton_bench(
            lambda: baseline(inputs, outputs), warmup=each_ms / 4, rep=3 * each_ms / 4, return_mode="median"
        )
        return float(time_ms)

    once()
    return dict(percentiles([float(np.log(once() / once())) for _ in range(times)]))


def study(name: str, *, repeats: int, long: int, final: bool) -> list[dict[str, Any]]:
    """Measure one kernel on its workloads."""
    bench = Workbench(str(HERE / f"task_{name}.py"), final=final)
    source, rows = read(HERE / TASKS[name]), []
    try:
        with bench.opened(source, "cuda" if name.startswith("cuda_") else "triton") as session:
            outcome = check(session, None, thoroughly=False)
            if outcome.status is not None:
                raise SystemExit(f"{name} is not right: {outcome.feedback}")
            for bound in (each for each in bench.bench.timed if each.kind is WorkloadPurpose.SEARCH):
                fresh = FreshInputs(bound.task, bound.workload, bench.bench.rng, device=bound.device)
                clock = session.clock(bound, fresh, baseline=bound.anchor, stage=Stage.PRECISE)
                assert isinstance(clock, ArtifactClock)
                clock.block()
                blocks = [clock.block() for _ in range(BLOCKS)]
                row = {
                    "task": name,
                    "baseline first / last": median(b.baseline_ns[0] / b.baseline_ns[1] for b in blocks),
                    "workload": bound.workload.name,
                    "us": bound.least_us,
                    "calls": bound.calls,
                    "60 ms": repeat(clock, SHORT_S, repeats),
                    "1 s": repeat(clock, LONG_S, long),
                    "do_bench": do_bench(bound, bench.bench.task.baselines["own launcher"], SHORT_S, repeats // 5 or 1),
                }
                row["hidden us"], row["fixed us"] = clock.hidden_ns() / 1e3, clock.fixed_ns() / 1e3
                rows.append(row)
                try:
                    clock.finish(thoroughly=True)
                except Rejected as rejected:  # it should not be, and the others are to be seen all the same
                    row["rejected"] = rejected.outcome.feedback
                print(json.dumps(row), flush=True)
    finally:
        bench.close()
    return rows


def between_processes(name: str, processes: int) -> dict[str, Any]:
    """Measure a kernel for 1 s in each of several fresh processes; the spread of what they say, in percent."""
    found: dict[str, list[float]] = {}
    for _ in range(processes):
        command = [sys.executable, str(HERE), name, "--repeats", "1", "--long", "1", "--final"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        for row in (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")):
            found.setdefault(row["workload"], []).append(row["1 s"]["mean"])
    return {
        "task": name,
        "processes": processes,
        "log speed-up in percent": found,
        "standard deviation": {workload: float(np.std(values, ddof=1)) for workload, values in found.items()},
    }


def slower() -> dict[str, Any]:
    """Time the softmax of 4104 rows against that of 4096, which is 0.195 % less work, at the final budget."""
    bench = Workbench(str(HERE / "task_slower.py"), final=True)
    try:
        with bench.opened(read(HERE / "slower.py")) as session:
            outcome = check(session, None, thoroughly=False)
            if outcome.status is not None:
                raise SystemExit(outcome.feedback)
            bound = bench.bench.timed[0]
            fresh = FreshInputs(bound.task, bound.workload, bench.bench.rng, device=bound.device)
            clock = session.clock(bound, fresh, baseline=bound.anchor, stage=Stage.FINAL)
            clock.block()
            found = [measure(clock.block, StoppingRule(LONG_S, half_width=0.0)) for _ in range(3)]
    finally:
        bench.close()
    errors = [math.hypot(each.log_error, clock.systematic_error()) for each in found]
    intervals = [
        [round(100 * (each.log_speedup + sign * 1.96 * error), 3) for sign in (-1, 1)]
        for each, error in zip(found, errors, strict=True)
    ]
    return {"slower by 0.195 %: log speed-up in percent, 95 % intervals": intervals}


def main() -> None:
    """Measure as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="*", default=list(TASKS))
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--long", type=int, default=20)
    parser.add_argument("--final", action="store_true", help="batches as long as those that winners are measured with")
    parser.add_argument("--processes", type=int, default=0, help="compare so many fresh processes instead")
    parser.add_argument("--slower", action="store_true", help="time a kernel that does 0.2 %% more work, too")
    given = parser.parse_args()
    print(torch.cuda.get_device_name(), f"torch {torch.__version__}", f"{len(ALL_CORES)} cores")
    for name in given.tasks:
        if given.processes:
            print(json.dumps(between_processes(name, given.processes)), flush=True)
        else:
            study(name, repeats=given.repeats, long=given.long, final=given.final)
    if given.slower:
        print(json.dumps(slower()))


if __name__ == "__main__":
    main()
