"""The baselines of tasks against each other, paired: `python benchmarks/panel.py [--max-autotune] [TASK ...]`.

On each workload, search and held-out, batches of two baselines alternate in the order ABBA, as candidate and baseline
do, with new contents for each batch. What is printed is the speed-up over the first one (torch) with its 95 % interval.
`--max-autotune` adds torch.compile in that mode, where a task has torch.compile. Each task ends with what it took to
set up: with compilers, by trial or not, of all its workloads.
"""

import argparse
import time

import torch
from gpu_judge import Workbench

from evokernel.evaluate.bench.workload import BoundWorkload
from evokernel.evaluate.judge.gpu_bench import CudaBench
from evokernel.evaluate.numerics.statistics import CounterbalancedBlock, estimate
from evokernel.evaluate.numerics.timed_inputs import FreshInputs
from evokernel.records.timing import Speedup

TASKS = ("gemm", "gemm_deep", "gemm_skinny", "gemm_bias_gelu")
BLOCKS = 60


def paired(opened: CudaBench, bound: BoundWorkload, one: str, other: str) -> Speedup:
    """Return the speed-up of the baseline `other` over `one`."""
    rng = opened.bench.rng
    fresh = FreshInputs(bound.task, bound.workload, rng, device=bound.device)
    sides = [opened.artifacts.baselines.batches(bound, name, timed=bound.calls) for name in (one, other)]

    def time_ns(side: int) -> float:
        fresh.fill_sets(bound.all_inputs(), fresh.draw_windows(bound.sets))
        order = int(rng.integers(len(sides[side])))
        torch.cuda.synchronize()
        return sides[side][order].run_ns() / bound.calls

    blocks = []
    for _ in range(BLOCKS):
        first, second, third, fourth = (time_ns(side) for side in (0, 1, 1, 0))
        blocks.append(CounterbalancedBlock((first, fourth), (second, third), 0.0))
    found = estimate(blocks)
    return Speedup.from_log(found.log_speedup, found.log_error)


def main() -> None:
    """Print a line for each task, workload and baseline."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=TASKS)
    parser.add_argument("--max-autotune", action="store_true", help="torch.compile in that mode, too")
    arguments = parser.parse_args()
    for task in arguments.tasks:
        began = time.perf_counter()
        workbench = Workbench(task, final=True, max_autotune=arguments.max_autotune)
        bench, setup_s = workbench.bench, time.perf_counter() - began
        for bound in bench.timed:
            first, *others = bench.panel
            for name in others:
                found = paired(workbench.opened_bench, bound, first, name)
                span = f"{found.value:.3f}x ({found.low:.3f} to {found.high:.3f}) of {first}"
                us = f"{bound.baseline_us[name]:.1f} us"
                print(f"{task} {bound.kind} {bound.workload.name}: {name} {us}, {span}", flush=True)
        print(f"{task}: set up in {setup_s:.1f} s", flush=True)
        workbench.close()


if __name__ == "__main__":
    main()
