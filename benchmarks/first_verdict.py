"""Time from the start of a process to the first verdict of its judge, and the processor time of all its processes.

`python benchmarks/first_verdict.py [--task gemm] [--source mine.cpp] [--runs 7] [CHECKOUT ...]`. Several checkouts take
turns, so that other work on the machine disturbs them alike. The kernel is the task's seed unless a file is named.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

ONE = """
import time
begin = time.monotonic()
import ctypes, gc, json, os, resource, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: processes whose parent has ended are counted, too
import evokernel
task, source = sys.argv[1:]
with evokernel.Judge(task) as judge:
    ready = time.monotonic()
    text = open(source or judge.task.seeds[judge.language]).read()
    found = judge(text)
    end = time.monotonic()
assert found.ok, found.feedback
del judge
gc.collect()  # compilers end with the last reference to them
try:
    while True:
        os.wait()
except ChildProcessError:
    pass
usage = [resource.getrusage(which) for which in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
metrics = {name: found.metrics.get(name, 0.0) for name in ("build_s", "check_s", "sanitizer_s", "time_s")}
cpu = {"user_s": sum(each.ru_utime for each in usage), "system_s": sum(each.ru_stime for each in usage)}
print(json.dumps({"first_verdict_s": end - begin, "ready_s": ready - begin, **metrics, **cpu}))
"""


def once(checkout: Path, task: str, source: str) -> dict[str, float]:
    """Return the figures of one process."""
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    command = [sys.executable, "-c", ONE, task, source]
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{checkout}: {done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Measure as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="gemm")
    parser.add_argument("--source", default="", help="file of a right kernel; default: the seed of the task")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("checkouts", nargs="*", type=Path, default=[Path(__file__).parents[1]])
    asked = parser.parse_args()
    checkouts = [path.resolve() for path in asked.checkouts]
    source = str(Path(asked.source).resolve()) if asked.source else ""
    for checkout in checkouts:
        once(checkout, asked.task, source)  # bytecode and caches
    found: list[list[dict[str, float]]] = [[] for _ in checkouts]
    for number in range(asked.runs):
        for index in range(len(checkouts)) if number % 2 else reversed(range(len(checkouts))):
            found[index].append(once(checkouts[index], asked.task, source))
            print(checkouts[index], json.dumps(found[index][-1]), file=sys.stderr, flush=True)
    for checkout, runs in zip(checkouts, found, strict=True):
        spread = {
            name: {"median": median(run[name] for run in runs), "least": min(run[name] for run in runs)}
            for name in runs[0]
        }
        print(json.dumps({"checkout": str(checkout), "runs": len(runs), **spread}, indent=2))


if __name__ == "__main__":
    main()
