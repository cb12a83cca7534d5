"""An exported operator over a grid of sizes beside torch: `python benchmarks/dispatch_grid.py [PLACE] --seconds 150`.

PLACE is an export, or a store, which is exported first; left out, a search for gemm is run before. The axes are the
first two dimensions that vary between the task's workloads, in steps of equal ratio over their ranges; the other
dimensions take the least, the middle and the greatest value of theirs in turn. At each size the operator, torch (the
task's reference, for gemm `torch.matmul`) and the best kernel alone take turns. On a GPU each is a captured graph, so
that times are the device's own, over more memory than its second-level cache holds. On a processor they are called, and
what Python takes for a call is in the times: it is most of them where a kernel takes some microseconds.

The order of sizes is random: where the time ends early, what was measured is spread over the grid. The host's time of
the dispatcher, which finds the kernel for a call, is printed apart. Exit code 1 where an answer is wrong.
"""

import argparse
import math
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from exported import Export, copies

from evokernel.evaluate.artifact_mode.baselines import Prelude, TimedCalls
from evokernel.evaluate.artifact_mode.runner_pool import PreludeSize
from evokernel.evaluate.inside.driver.streams import Stopwatch
from evokernel.evaluate.numerics.arrays import torch_dtype
from evokernel.export.size_domain import size_domain
from evokernel.export.template_text import new_tensor
from evokernel.task import Workload

GRID_SECONDS = 45.0
MOST_CALLS = 16
ROUNDS = 9
ROUGHLY = 0.02
NEVER_UNDER = 0.99
ASKED = 200

Call = Callable[[], object]
Clock = Callable[[], float]


@dataclass(frozen=True)
class Cell:
    """One size with its times."""

    sizes: dict[str, Any]
    """All dimensions."""
    arm: str
    """Who answers: a module's name, or torch."""
    operator_us: float
    """Time of the operator."""
    torch_us: float
    """Time of torch."""
    winner_us: float
    """Time of the best kernel alone."""
    found_us: tuple[float, float]
    """The dispatcher's time on the host: for a size that it sees the first time, and later."""
    wrong: bool
    """Its answer is not torch's."""


class Setting:
    """An export and the clocks of its device."""

    def __init__(self, folder: Path) -> None:
        self.export = Export(folder)
        self.op, self.device = self.export.op, self.export.device
        torch.set_num_threads(self.export.facts["config"]["threads"])
        torch.backends.cuda.matmul.allow_tf32 = self.export.task.precision.allow_tf32
        self._prelude = None
        if self.device == "cuda":
            properties = torch.cuda.get_device_properties(0)
            self._prelude = Prelude(PreludeSize(properties.L2_cache_size, properties.multi_processor_count))

    def clock(self, calls: Sequence[Call], memories: Sequence[torch.Tensor], kept: list[object]) -> Clock:
        """Return a clock of all calls in turn, in us for one of them; results stay in memory of their own."""
        keeping = [partial(lambda call: kept.append(call()), call) for call in calls]
        keeping[0]()  # it may compile
        if self._prelude is not None:
            begin = partial(self._prelude.queue, memories)
            batch = TimedCalls(keeping, timed=len(calls), begin=begin, stopwatch=Stopwatch())
            return lambda: batch.run_ns() / len(calls) / 1e3

        def time_us() -> float:
            kept.clear()
            began = time.perf_counter_ns()
            for call in keeping:
                call()
            return (time.perf_counter_ns() - began) / len(calls) / 1e3

        return time_us

    def measure(self, sizes: dict[str, Any]) -> Cell:
        """Time operator, torch and best kernel at some sizes, in turn."""
        export, task, workload = self.export, self.export.task, Workload("cell", sizes)
        signature, numbers = task.signature, export.numbers(workload)
        place = f', device="{self.device}"'
        count = min(copies(self.device, sum(t.bytes_at(workload.sizes) for t in signature.tensors)), MOST_CALLS)
        given = [
            [eval(new_tensor(tensor, workload, place), {"torch": torch}) for tensor in signature.inputs]
            for _ in range(count)
        ]
        shapes = [(tensor.shape_at(workload.sizes), torch_dtype(tensor.dtype)) for tensor in signature.outputs]
        made = [[torch.empty(shape, dtype=dtype, device=self.device) for shape, dtype in shapes] for _ in range(count)]
        first, found = self._found(given[0], numbers)
        memories = [tensor.view(-1).view(torch.uint8) for tensors in (*given, *made) for tensor in tensors]
        names, scalars = [t.name for t in signature.inputs], {s.name: sizes[s.name] for s in signature.scalars}
        if self.device == "cpu":
            alone = [partial(self.op.kernel.run, *g, **numbers, out=m) for g, m in zip(given, made, strict=True)]
        else:
            alone = [partial(self.op.kernel.run, *g, *scalars.values(), *m) for g, m in zip(given, made, strict=True)]
        calls: dict[str, Sequence[Call]] = {
            "operator": [partial(export.operator, *tensors, **numbers) for tensors in given],
            "torch": [partial(self.op.reference, **dict(zip(names, each, strict=True)), **scalars) for each in given],
            "winner": alone,
        }
        wrong = _differ(calls["operator"][0](), calls["torch"][0]())
        kept: list[object] = []
        clocks = {name: self.clock(each, memories, kept) for name, each in calls.items()}
        times: dict[str, list[float]] = {name: [] for name in clocks}
        for turn in range(ROUNDS):
            for name in [*clocks] if turn % 2 else [*reversed(clocks)]:
                times[name].append(clocks[name]())
        middle = {name: statistics.median(each) for name, each in times.items()}
        return Cell(sizes, found, middle["operator"], middle["torch"], middle["winner"], first, wrong)

    def _found(self, given: Sequence[torch.Tensor], numbers: dict[str, Any]) -> tuple[tuple[float, float], str]:
        """Return the dispatcher's times for a new size and a known one, in us, and who answers."""
        tensors = dict(zip((t.name for t in self.export.task.signature.inputs), given, strict=True))
        began = time.perf_counter_ns()
        case = self.op._chosen(tensors, numbers)
        first = time.perf_counter_ns() - began
        began = time.perf_counter_ns()
        for _ in range(ASKED):
            self.op._chosen(tensors, numbers)
        later = (time.perf_counter_ns() - began) / ASKED
        return (first / 1e3, later / 1e3), case.kernel.__name__ if case else "torch"


def _differ(found: object, due: object) -> bool:
    """Say whether an answer is far from torch's; the judge has compared closely."""
    pairs = zip(*(each if isinstance(each, (tuple, list)) else [each] for each in (found, due)), strict=True)
    return any(
        float((one.double() - other.double()).norm()) > ROUGHLY * float(other.double().norm()) for one, other in pairs
    )


def grid(
    ranges: dict[str, tuple[int, int]], others: dict[str, Any], count: int
) -> dict[tuple[int, int], dict[str, Any]]:
    """Return the sizes of a grid by row and column; half of the rows and columns are multiples of 64, half of 8."""
    varying = [name for name, (low, high) in ranges.items() if low < high]
    if len(varying) < 2:
        raise SystemExit("a grid needs a task with two dimensions that vary between its workloads")

    def steps(name: str) -> list[int]:
        low, high = ranges[name]
        found = [low * (high / low) ** (place / (count - 1)) for place in range(count)]
        return [_multiple(value, 8 if place % 2 else 64, low, high) for place, value in enumerate(found)]

    rows, columns = (steps(name) for name in varying[:2])
    cells: dict[tuple[int, int], dict[str, Any]] = {}
    for place, row in enumerate(rows):
        for at, column in enumerate(columns):
            rest = {}
            for name in ranges.keys() - set(varying[:2]):
                low, high = ranges[name]
                rest[name] = (low, _multiple(math.sqrt(low * high), 64, low, high), high)[(place + at) % 3]
            cells[place, at] = others | rest | {varying[0]: row, varying[1]: column}
    return cells


def _multiple(value: float, step: int, low: int, high: int) -> int:
    step = step if high - low >= 4 * step else 1
    return min(max(round(value / step) * step, low), high)


# ------------------------------------------------------------------------------------------------ the export


def exported(place: Path | None, options: argparse.Namespace, *, until: float, folder: Path) -> Path:
    """Return an export: the named one, or one that is made now."""
    if place is not None and (place / "op.py").is_file():
        return place
    store = place or folder / "gemm.db"
    if place is None:
        settings = ["--store", str(store), "--budget", f"hours={options.search_seconds / 3600:.5f}"]
        _run(["evolve", options.config, *settings], until=until)
    out, began = folder / "export", time.monotonic()
    words = ["export", str(store), "--out", str(out), "--sizes", str(options.sizes)]
    words += ["--accept-from", str(options.accept_from), *(["--per-workload"] if options.per_workload else [])]
    _run(words, until=until - GRID_SECONDS)
    print(f"\nexported in {time.monotonic() - began:.0f} s", flush=True)
    return out


def _run(words: Sequence[str], *, until: float) -> None:
    """Run a command of evokernel. Raises `SystemExit` where it fails or takes too long."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "evokernel", *words], check=False, timeout=max(until - time.monotonic(), 1)
        )
    except subprocess.TimeoutExpired:
        raise SystemExit(f"no time is left for `evokernel {words[0]}`: raise --seconds, or name an export") from None
    if done.returncode:
        raise SystemExit(f"evokernel {words[0]} ended with {done.returncode}")


# ------------------------------------------------------------------------------------------------ the table


def report(cells: dict[tuple[int, int], Cell], axes: Sequence[str], *, asked: int) -> None:
    """Print the table and what comes of it."""
    rows, columns = (sorted({place[axis] for place in cells}) for axis in (0, 1))
    names = sorted({cell.arm for cell in cells.values()} - {"torch"})
    letters = {name: chr(ord("a") + number) for number, name in enumerate(names)} | {"torch": "-"}
    head = {at: next(cell.sizes[axes[1]] for place, cell in cells.items() if place[1] == at) for at in columns}
    print(
        f"\n| {axes[0]} \\ {axes[1]} | {' | '.join(str(head[at]) for at in columns)} |\n|{'---|' * (len(columns) + 1)}"
    )
    for row in rows:
        size = next(cell.sizes[axes[0]] for place, cell in cells.items() if place[0] == row)
        shown = [cells.get((row, at)) for at in columns]
        texts = [f"{each.torch_us / each.operator_us:.3f} {letters[each.arm]}" if each else "" for each in shown]
        print(f"| {size} | {' | '.join(texts)} |")
    print(f"\nspeed of the operator over torch; who answers: {', '.join(f'{v} {k}' for k, v in letters.items())}")
    over = [cell.torch_us / cell.operator_us for cell in cells.values()]
    alone = [cell.torch_us / cell.winner_us for cell in cells.values()]
    answered = [ratio for ratio, cell in zip(over, cells.values(), strict=True) if cell.arm != "torch"]
    print(f"measured: {len(cells)} of {asked} sizes; a kernel answers at {len(answered)}")
    for name, found in {
        "the operator": over,
        "the single winner": alone,
        "kernels where they answer": answered,
    }.items():
        if found:
            under = sum(each < NEVER_UNDER for each in found)
            mean = statistics.geometric_mean(found)
            print(f"{name}: geomean {mean:.4f}x of torch, least {min(found):.3f}x, under {NEVER_UNDER}x at {under}")
    gain = statistics.geometric_mean(over) / statistics.geometric_mean(alone)
    print(f"the operator over the single winner: geomean {gain:.4f}x")
    first, later = ([cell.found_us[place] for cell in cells.values()] for place in (0, 1))
    print(
        f"host's time of the dispatcher: {statistics.median(later):.1f} us a call (up to {max(later):.1f}), "
        f"{statistics.median(first):.0f} us at a new size"
    )
    wrong = [cell.sizes for cell in cells.values() if cell.wrong]
    print("".join(f"wrong at {sizes}\n" for sizes in wrong), end="")


def main() -> int:
    """Export where needed, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("place", nargs="?", type=Path, help="an export or a store; default: search first")
    parser.add_argument("--seconds", type=float, default=150.0, help="limit of all together (default 150)")
    parser.add_argument("--grid", type=int, default=10, help="rows and columns (default 10)")
    parser.add_argument(
        "--config", default="configs/gemm.yaml", help="config of the search (default configs/gemm.yaml)"
    )
    parser.add_argument("--search-seconds", type=float, default=40.0, help="limit of the search (default 40)")
    parser.add_argument("--sizes", type=int, default=16, help="of the export (default 16)")
    parser.add_argument("--accept-from", type=float, default=1.0, help="of the export (default 1)")
    parser.add_argument("--per-workload", action="store_true", help="take the champions of workloads along")
    options = parser.parse_args()
    if options.grid < 2:
        parser.error("--grid takes 2 or more")
    until = time.monotonic() + options.seconds
    with tempfile.TemporaryDirectory(prefix="evokernel-grid-") as folder:
        setting = Setting(exported(options.place, options, until=until, folder=Path(folder)))
        domain = size_domain(setting.export.task)
        places = grid(dict(domain.ranges), dict(domain.others[0]), options.grid)
        axes = [name for name, (low, high) in domain.ranges.items() if low < high][:2]
        order, cells, slowest = random.Random(0).sample([*places], len(places)), dict[tuple[int, int], Cell](), 0.0
        for place in order:
            began = time.monotonic()
            if began + slowest > until:
                break
            cells[place] = setting.measure(places[place])
            slowest = max(slowest, time.monotonic() - began) if len(cells) > 1 else 0.0  # the first one warms up
        device = torch.cuda.get_device_name() if setting.device == "cuda" else setting.export.facts["final"]["device"]
        print(f"\n{setting.export.task.name} on {device}, torch {torch.__version__}")
        if not cells:
            raise SystemExit("no time was left for the grid: raise --seconds")
        report(cells, axes, asked=len(places))
    return int(any(cell.wrong for cell in cells.values()))


if __name__ == "__main__":
    sys.exit(main())
