"""Results and speed of an exported operator against its measurement: `python benchmarks/exported.py FOLDER`.

On each workload that op.py has a kernel for, it is judged by the rule of the evaluator, on the task's own
distributions. Then the operator and the bare kernel, which writes into tensors that are there already, alternate in the
order ABBA, with new contents for each batch: on a GPU in captured graphs, which is the device's own time, over more
memory than its second-level cache holds; and as Python calls them, with all that happens on the host, alone and under
torch.compile. Everywhere else, on hidden shapes drawn as the evaluator draws them, torch must answer, and rightly.

Printed is Markdown: times of one call of the operator, and the kernel's time over them with its 95 % interval; then
what the kernel took in the final measurement before the export, over the operator's time here (in a graph; without a
GPU, called). Held-out workloads have no such time of their own. Exit code 1 where an answer is wrong.
"""

import argparse
import importlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

from evokernel.evaluate.artifact_mode.baselines import Prelude, TimedCalls
from evokernel.evaluate.artifact_mode.runner_pool import PreludeSize
from evokernel.evaluate.bench.admission_variants import AdmissionVariant
from evokernel.evaluate.inside.driver.streams import Stopwatch
from evokernel.evaluate.numerics.arrays import synchronize, torch_dtype
from evokernel.evaluate.numerics.correctness import judge_output
from evokernel.evaluate.numerics.hidden_shapes import probe_workloads
from evokernel.evaluate.numerics.statistics import CounterbalancedBlock, Estimate, estimate
from evokernel.evaluate.numerics.timed_inputs import FreshInputs
from evokernel.export.template_text import numbers_of, op_name
from evokernel.records.timing import Speedup
from evokernel.task import Task, Tensor, Workload
from evokernel.tasks import load_task

BLOCKS = 30
OVER_CACHE = 2
HOST_CACHE = 32 << 20
LEAST_CALLS, MOST_CALLS = 4, 64
SHARE_OF_FREE_MEMORY = 0.2
COLUMNS = ("workload", "right", "in a graph", "ratio", "called", "ratio", "compiled", "ratio", "measured", "ratio")

Call = Callable[[], object]
Clock = Callable[[], float]


class Export:
    """An imported export and its task."""

    def __init__(self, folder: Path) -> None:
        self.facts = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
        sys.path.insert(0, str(folder.resolve()))
        self.op: ModuleType = importlib.import_module("op")
        self.device: str = self.op.DEVICE
        self.task: Task = load_task(self.facts["task"]["spec"]).on(self.device)
        self.operator: Callable[..., Any] = getattr(self.op, op_name(self.task))

    def kernel(self, workload: Workload) -> ModuleType | None:
        """Return the module that answers on a workload, or None where it is torch that does."""
        found: ModuleType | None = self.op.KERNELS.get(tuple(workload.dims[name] for name in self.op.SIZES))
        if found is None and getattr(self.op, "RANGES", None) and self.op._in_ranges(workload.dims):
            found = self.op._between(workload.dims)
        return found

    def numbers(self, workload: Workload) -> dict[str, Any]:
        """Return the arguments that are no tensors."""
        return {name: workload.dims[name] for name in numbers_of(self.task)}

    def measured_us(self, workload: Workload, kernel: ModuleType) -> float | None:
        """Return the kernel's time in the final measurement; held-out workloads have none of their own."""
        final = self.facts["others"].get(kernel.__name__, self.facts)["final"]["evaluations"][-1]
        times = {timing["name"]: timing["candidate_us"] for timing in final["workloads"]}
        return times.get(workload.name)


# ------------------------------------------------------------------------------------------------ right or wrong


def complaints(export: Export, workload: Workload, rng: np.random.Generator) -> Iterator[str]:
    """Yield the faults of the operator's answers, and of the choice of kernel or torch."""
    for distribution in export.task.distributions:
        case = AdmissionVariant.drawn(export.task, workload, distribution, rng, device=export.device)
        given = {tensor.name: case.inputs[tensor.name].clone() for tensor in export.task.signature.inputs}
        numbers = export.numbers(workload)
        chosen = export.op._chosen(given, numbers)
        if (chosen and chosen.kernel) is not export.kernel(workload):
            yield f"{case.name}: it is not answered by the kernel that KERNELS names, or by torch where it names none"
        answers = export.operator(*given.values(), **numbers)
        finding = judge_output(case.expected, answers if isinstance(answers, tuple) else (answers,))
        if finding is not None:
            yield f"{case.name}: {finding.feedback}"


# ---------------------------------------------------------------------------------------------------------- speed


class Bench:
    """One workload: copies of its tensors, and clocks that time a call of something on all of them in turn, in ns."""

    def __init__(self, export: Export, workload: Workload, kernel: ModuleType, rng: np.random.Generator) -> None:
        self.device, self._numbers, self._kernel = export.device, export.numbers(workload), kernel
        self._fresh = FreshInputs(export.task, workload, rng, device=export.device)
        self._scalars = [workload.dims[scalar.name] for scalar in export.task.signature.scalars]
        sets = range(copies(export.device, sum(t.bytes_at(workload.sizes) for t in export.task.signature.tensors)))

        def empty(tensor: Tensor) -> torch.Tensor:
            shape, strides = tensor.shape_at(workload.sizes), tensor.strides_at(workload.sizes)
            made = torch.empty(shape, dtype=torch_dtype(tensor.dtype), device=export.device)
            # each on its own, so that it is aligned as operators demand it
            return made if strides is None else made.new_empty_strided(shape, strides)

        self._inputs = [{tensor.name: empty(tensor) for tensor in export.task.signature.inputs} for _ in sets]
        self._outputs = [[empty(tensor) for tensor in export.task.signature.outputs] for _ in sets]
        self._kept: list[object] = []

    def refill(self) -> None:
        """Fill all copies with new contents."""
        for views, window in zip(self._inputs, self._fresh.draw_windows(len(self._inputs)), strict=True):
            self._fresh.fill(views, window)
        synchronize(self.device)

    def bare(self) -> list[Call]:
        """Return calls of the kernel."""
        pairs = [([*views.values()], made) for views, made in zip(self._inputs, self._outputs, strict=True)]
        if self.device == "cpu":
            return [partial(self._kernel.run, *given, **self._numbers, out=made) for given, made in pairs]
        return [partial(self._kernel.run, *given, *self._scalars, *made) for given, made in pairs]

    def of(self, operator: Callable[..., Any]) -> list[Call]:
        """Return calls of an operator."""
        return [partial(operator, *views.values(), **self._numbers) for views in self._inputs]

    def host(self, calls: list[Call]) -> Clock:
        """Return a clock on the host."""
        calls[0]()  # it may compile

        def time_ns() -> float:
            begin = time.perf_counter_ns()
            for call in calls:
                call()
            synchronize(self.device)
            return (time.perf_counter_ns() - begin) / len(calls)

        return time_ns

    def graph(self, calls: list[Call], prelude: Prelude) -> Clock:
        """Return a clock on a GPU, whose calls are captured. Raises `RuntimeError` where they cannot be."""
        memories = [t.view(-1).view(torch.uint8) for views in self._inputs for t in views.values()]
        memories += [t.view(-1).view(torch.uint8) for made in self._outputs for t in made]
        calls[0]()  # it may compile, which cannot be captured
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            calls[0]()
        # discarded results would all lie in the same memory, which is in the cache
        keeping: list[Call] = [partial(lambda call: self._kept.append(call()), call) for call in calls]
        begin = partial(prelude.queue, memories)
        batch = TimedCalls(keeping, timed=len(calls), begin=begin, stopwatch=Stopwatch())
        return lambda: batch.run_ns() / len(calls)


def copies(device: str, set_bytes: int) -> int:
    """Return how many copies of all tensors there are: more than a cache holds, and not more than fit."""
    cache, room = HOST_CACHE, MOST_CALLS
    if device != "cpu":
        cache = torch.cuda.get_device_properties(0).L2_cache_size
        room = int(SHARE_OF_FREE_MEMORY * torch.cuda.mem_get_info()[0] / set_bytes)
    return max(1, min(max(OVER_CACHE * cache // set_bytes, LEAST_CALLS), MOST_CALLS, room))


def paired(bench: Bench, kernel: Clock, operator: Clock) -> Estimate:
    """Time the operator against the kernel."""

    def time_ns(clock: Clock) -> float:
        bench.refill()
        return clock()

    blocks = []
    for _ in range(BLOCKS):
        first, second, third, fourth = (time_ns(clock) for clock in (kernel, operator, operator, kernel))
        blocks.append(CounterbalancedBlock((first, fourth), (second, third), 0.0))
    return estimate(blocks)


def timed(export: Export, workload: Workload, kernel: ModuleType, rng: np.random.Generator) -> list[str]:
    """Return the cells of a row on speed."""
    bench = Bench(export, workload, kernel, rng)
    bench.refill()
    torch._dynamo.reset()
    compiled = torch.compile(export.operator, fullgraph=True, dynamic=False)
    bare, cells = bench.host(bench.bare()), ["-", "-"]
    called = paired(bench, bare, bench.host(bench.of(export.operator)))
    own = called
    if export.device != "cpu":
        properties = torch.cuda.get_device_properties(0)
        prelude = Prelude(PreludeSize(properties.L2_cache_size, properties.multi_processor_count))
        own = paired(bench, *(bench.graph(calls, prelude) for calls in (bench.bare(), bench.of(export.operator))))
        cells = cells_of(own)
    cells += cells_of(called) + cells_of(paired(bench, bare, bench.host(bench.of(compiled))))
    measured = export.measured_us(workload, kernel)
    return [*cells, *((f"{measured:.1f} us", f"{measured / own.candidate_us:.3f}x") if measured else ("-", "-"))]


def cells_of(found: Estimate) -> list[str]:
    """Return a time and a ratio as text."""
    ratio = Speedup.from_log(found.log_speedup, found.log_error)
    return [f"{found.candidate_us:.1f} us", f"{ratio.value:.3f}x ({ratio.low:.3f} to {ratio.high:.3f})"]


def main() -> int:
    """Print a row for each workload, and all faults."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="what `evokernel export` wrote, with an op.py")
    folder = parser.parse_args().folder
    if not all((folder / name).is_file() for name in ("provenance.json", "op.py")):
        parser.error(f"{folder} is no export with an operator: `evokernel export --out {folder}` writes one")
    export = Export(folder)
    torch.set_num_threads(export.facts["config"]["threads"])
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = export.task.precision.allow_tf32
    rng, wrong = np.random.default_rng(), list[str]()
    workloads = export.task.workloads[export.device]
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}", flush=True)
    others = [each for each in probe_workloads(workloads, rng) if export.kernel(each) is None]
    for workload in (*workloads.search, *workloads.holdout):
        kernel = export.kernel(workload)
        if kernel is None:
            others.append(workload)
            continue
        found = list(complaints(export, workload, rng))
        wrong += found
        row = [workload.name, "no" if found else "yes", *timed(export, workload, kernel, rng)]
        print(f"| {' | '.join(row)} |", flush=True)
    elsewhere = [list(complaints(export, workload, rng)) for workload in others]
    print(f"\ntorch answers on {len(others)} other shapes, and is right on {elsewhere.count([])} of them")
    wrong += [text for texts in elsewhere for text in texts]
    print("".join(f"* wrong: {text}\n" for text in wrong), end="")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
