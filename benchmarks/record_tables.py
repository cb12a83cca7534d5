"""Record tables for `tuners.py` on a GPU: `python benchmarks/record_tables.py TASK=SOURCE [TASK=SOURCE ...]`.

Of each task and Triton source, every allowed point of its tunables is compiled, in as many processes as there are
cores, and then timed on the first search workloads of the task, in a captured graph, by one process that has the GPU to
itself. Results are not judged: a wrong kernel has a time, too. A file TASK_GPU.json for each.
"""

import argparse
import functools
import importlib.util
import itertools
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from evokernel.evaluate.numerics.arrays import torch_dtype
from evokernel.evaluate.numerics.inputs import draw
from evokernel.source.tunables import TunableSpace, read_tunables, with_values
from evokernel.task import Task, Tensor, Workload
from evokernel.tasks import load_task

SEED = 20261125
REPLAY_MS = 4.0
"""Time of one replay of a graph; the least of ten counts."""

Run = Callable[..., object]


@dataclass(frozen=True)
class Recording:
    """A source whose points are timed on a task."""

    task: str
    """Its name or file."""
    source: str
    """Triton, with tunables."""

    @property
    def space(self) -> TunableSpace:
        """The tunables."""
        return read_tunables(self.source)

    @property
    def loaded(self) -> Task:
        """The task on a GPU."""
        return load_task(self.task).on("cuda")

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """The search workloads."""
        return self.loaded.workloads["cuda"].search


@functools.lru_cache(maxsize=1)
def arguments_of(recording: Recording, index: int) -> list[Any]:
    """Return the arguments of `run` on the GPU, for a search workload by its index; drawn once in a process."""
    task, workload = recording.loaded, recording.workloads[index]
    contents = draw(task, workload, "normal", np.random.default_rng(SEED), device="cuda")
    return [argument_of(argument, workload, contents) for argument in task.signature.arguments]


def argument_of(argument: Any, workload: Workload, contents: Mapping[str, Any]) -> Any:
    """Return one argument of `run`: drawn contents, an empty output, or a number."""
    if not isinstance(argument, Tensor):
        return workload.dims[argument.name]
    if argument.name in contents:
        return torch.as_tensor(contents[argument.name]).cuda()
    return torch.empty(argument.shape_at(workload.sizes), dtype=torch_dtype(argument.dtype), device="cuda")


def load(folder: Path, recording: Recording, values: Mapping[str, int]) -> Run:
    """Return `run` of a source at a point; Triton reads the text of a kernel from its file."""
    name = "_".join([recording.task, *map(str, values.values())])
    file = folder / f"{name}.{os.getpid()}.py"
    file.write_text(with_values(recording.source, values))
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    run: Run = module.run
    return run


def compile_point(folder: Path, recording: Recording, index: int, values: Mapping[str, int]) -> None:
    """Leave a point's machine code in Triton's cache; what cannot be compiled, or run, leaves none."""
    try:
        load(folder, recording, values)(*arguments_of(recording, index))
    except Exception:  # noqa: BLE001  the clock finds out, and records it
        return


def time_point(run: Run, arguments: Sequence[Any]) -> float | None:
    """Return the time of a call in us, or None where it cannot run."""
    from triton.testing import do_bench_cudagraph

    try:
        return 1000 * float(do_bench_cudagraph(functools.partial(run, *arguments), rep=REPLAY_MS, return_mode="min"))
    except Exception as error:
        if "illegal" in str(error) or "misaligned" in str(error):
            raise  # nothing works in this process any more
        return None


def record(recording: Recording, *, shapes: int, folder: Path, until: float) -> dict[str, Any]:
    """Return the tables of a source, as `tuning_tables.py` reads them; points not reached by `until` are None."""
    space = recording.space
    choices = {tunable.name: list(tunable.choices) for tunable in space.tunables}
    grid = [dict(zip(choices, point, strict=True)) for point in itertools.product(*choices.values())]
    workloads = recording.workloads[:shapes]
    allowed = [values for values in grid if space.allows(values)]
    began = time.monotonic()
    with ProcessPoolExecutor(max(1, (os.cpu_count() or 2) - 1), multiprocessing.get_context("spawn")) as pool:
        for index in range(len(workloads)):
            list(pool.map(functools.partial(compile_point, folder, recording, index), allowed, chunksize=4))
    print(f"{recording.task}: {len(allowed)} points compiled in {time.monotonic() - began:.0f} s", flush=True)
    us: dict[str, list[float | None]] = {}
    for index, workload in enumerate(workloads):
        arguments = arguments_of(recording, index)
        times = []
        for values in grid:
            timed = space.allows(values) and time.monotonic() < until
            us_of_point = time_point(load(folder, recording, values), arguments) if timed else None
            times.append(None if us_of_point is None else round(us_of_point, 3))
        us[workload.name] = times
        found = [each for each in times if each is not None]
        print(f"  {workload.name}: {len(found)} points run, {min(found):.1f} to {max(found):.1f} us", flush=True)
    return {
        "about": f"{recording.task} in Triton on one {torch.cuda.get_device_name()}; the least of ten replays of a "
        "graph in us, null where it cannot run; points in the order of a product of the choices",
        "choices": choices,
        "rule": " and ".join(f"({text})" for text in space.constraints) or "1",
        "us": us,
    }


def main() -> None:
    """Record the tables that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", nargs="+", metavar="TASK=SOURCE")
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent / "tables")
    parser.add_argument("--shapes", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=60.0, help="what is not timed by then is left out")
    given = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("a table is recorded on a GPU, and torch finds none here")
    until = time.monotonic() + 60 * given.minutes
    device = torch.cuda.get_device_name().split()[1].lower()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = f"{folder}/cache"
        for text in given.recordings:
            task, _, source = text.partition("=")
            recording = Recording(task, Path(source).read_text())
            table = record(recording, shapes=given.shapes, folder=Path(folder), until=until)
            (given.folder / f"{task}_{device}.json").write_text(json.dumps(table))


if __name__ == "__main__":
    main()
