"""Distinct right kernels per second through `Judge.map`, and what each leaves behind in memory.

`python benchmarks/judge_map.py [--task T] [--candidates 300] [--language cpp] [--quick-ms 30]`. Every candidate
compiles to other code, so none shares the times of another. Memory is read after each tenth of them, of this process
and of all below it, and the load of the machine beside it; each tenth is a line on stderr.
"""

import argparse
import json
import os
import sys
import time
from collections import defaultdict
from pathlib import Path
from statistics import linear_regression, median

import numpy as np
from cascade import variants

from evokernel import Judge
from evokernel.tasks import load_task

PAGE = os.sysconf("SC_PAGE_SIZE")


def kernels(task: str, language: str, count: int) -> list[str]:
    """Return right sources of different code."""
    if language == "triton":
        made: list[str] = variants(count, seed=1)
        return made
    seed = load_task(task).seeds["cpp"].read_text()
    return [f'{seed}\nextern "C" int variant() {{ return {number}; }}\n' for number in range(count)]


def resident_mib() -> tuple[float, float]:
    """Return the resident memory of this process, and of it with all its descendants, in MiB."""
    children, resident = defaultdict(list), {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            resident[int(folder.name)] = int((folder / "statm").read_text().split()[1]) * PAGE / 2**20
        except (OSError, ValueError):
            continue  # it has ended meanwhile
        children[parent].append(int(folder.name))
    waiting, total = [os.getpid()], 0.0
    while waiting:
        number = waiting.pop()
        total += resident.get(number, 0.0)
        waiting += children[number]
    return resident[os.getpid()], total


def slope_kib(counts: list[int], mib: list[float]) -> dict[str, float]:
    """Return the growth by verdict with the half of its 95 % interval, in KiB."""
    slope, start = linear_regression(counts, mib)
    x, left = np.array(counts, float), np.array(mib) - start - slope * np.array(counts)
    error = (left @ left / (len(x) - 2) / ((x - x.mean()) @ (x - x.mean()))) ** 0.5
    return {"slope": slope * 1024, "plus_minus": 2.31 * error * 1024}  # t for ten readings


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--task", default="gemm")
    parser.add_argument("--language", default="cpp", choices=["cpp", "triton"])
    parser.add_argument("--candidates", type=int, default=300)
    parser.add_argument("--quick-ms", type=float, help="evaluation.quick_ms; default: that of the device")
    asked = parser.parse_args()
    begin = time.monotonic()
    evaluation = {} if asked.quick_ms is None else {"quick_ms": asked.quick_ms}
    with Judge(asked.task, language=asked.language, evaluation=evaluation) as judge:
        start_s = time.monotonic() - begin
        warm, *sources = kernels(asked.task, asked.language, asked.candidates + 1)
        assert judge(warm).ok
        part = max(1, len(sources) // 10)
        found, walls, counts, own, whole, loads = [], [], [], [], [], []
        for first in range(0, len(sources), part):
            begin = time.monotonic()
            found += judge.map(sources[first : first + part])
            walls.append(time.monotonic() - begin)
            counts.append(len(found))
            mine, all_of_it = resident_mib()
            own.append(mine)
            whole.append(all_of_it)
            loads.append(os.getloadavg()[0])
            line = (
                f"{len(found)} in {sum(walls):.0f} s, {mine:.1f} MiB ({all_of_it:.0f} with all), load {loads[-1]:.1f}"
            )
            print(line, file=sys.stderr, flush=True)
    print(
        json.dumps(
            {
                "task": asked.task,
                "device": judge.identity.device,
                "start_s": start_s,
                "verdicts": len(found),
                "right": sum(each.ok for each in found),
                "twins": sum(bool(each.metrics.get("twin")) for each in found),
                "per_second": len(found) / sum(walls),
                "s by part": walls,
                "load by part": loads,
                "median_build_s": median(each.metrics["build_s"] for each in found),
                "resident_mib": {"this process": own, "with all below it": whole},
                "kib_per_verdict": {
                    "this process": slope_kib(counts, own),
                    "with all below it": slope_kib(counts, whole),
                },
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
