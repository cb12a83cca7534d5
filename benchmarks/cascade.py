"""Distinct GEMM candidates per second through the whole cascade of one machine's GPUs, and where the time goes.

`python benchmarks/cascade.py [--candidates 60] [--in-flight 24] [--gpus 1]`. Every candidate is another one: compiled,
checked on three workloads and the hidden shapes with all distributions, and timed for 60 ms on each workload, with no
early exit.
"""

import argparse
import asyncio
import itertools
import json
import random
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median
from typing import Any

from evokernel.config.run import EvaluationConfig
from evokernel.evaluate.build.confined_compilers import local_language
from evokernel.evaluate.client.open_evaluator import open_evaluator
from evokernel.evaluate.device import nvml
from evokernel.evaluate.device.device_class import this_machine
from evokernel.protocols import Language
from evokernel.records.build import BuildFailure, Built
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Evaluation, EvaluationRequest, Fidelity
from evokernel.task import Task

SEED = Path(__file__).parent / "precision" / "gemm.py"
VALUES = {
    "BLOCK_M": (32, 64, 128),
    "BLOCK_N": (64, 128, 256),
    "BLOCK_K": (16, 32, 64, 128),
    "num_warps": (4, 8),
    "num_stages": (1, 2, 3, 4, 5),
}
PERIOD_S = 0.05


class Sampler(threading.Thread):
    """Sampler of a GPU's load by NVML: the share of time in which a kernel ran."""

    def __init__(self, index: int) -> None:
        super().__init__(daemon=True)
        self._handle = nvml.handle(index)
        self._over = threading.Event()
        self.samples: list[tuple[float, int]] = []

    def run(self) -> None:
        """Sample until told to stop."""
        while not self._over.wait(PERIOD_S):
            rates = nvml.ask("nvmlDeviceGetUtilizationRates", self._handle)
            self.samples.append((time.monotonic(), rates.gpu))

    def stop(self) -> None:
        """End it."""
        self._over.set()
        self.join()


@dataclass(frozen=True)
class Watched:
    """A language that notes the end of each build: from then on a candidate waits for a GPU, or has one."""

    language: Language
    built: dict[str, float] = field(default_factory=dict)
    """Time at which each source was built, in s."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.language, name)

    def build(
        self, source: str, task: Task, *, hidden: Sequence[Mapping[str, int | float]] = ()
    ) -> Built | BuildFailure:
        """Build, and note the time of the end."""
        made = self.language.build(source, task, hidden=hidden)
        self.built.setdefault(source, time.monotonic())
        return made


def variants(count: int, seed: int) -> list[str]:
    """Return different sources of one kernel that fit the device."""
    text = SEED.read_text()
    points = [dict(zip(VALUES, values, strict=True)) for values in itertools.product(*VALUES.values())]
    fitting = [p for p in points if (p["BLOCK_M"] + p["BLOCK_N"]) * p["BLOCK_K"] * 2 * p["num_stages"] <= 200_000]
    fitting = [p for p in fitting if p["BLOCK_M"] * p["BLOCK_N"] <= 4096 * p["num_warps"]]
    random.Random(seed).shuffle(fitting)
    made = []
    for number in range(count):
        source = text + f"\n\nVARIANT = {number // len(fitting)}\n"
        for name, value in fitting[number % len(fitting)].items():
            source = re.sub(rf"\b{name}( ?= ?)\d+", rf"{name}\g<1>{value}", source)
        made.append(source)
    return made


async def measure(count: int, in_flight: int, gpus: int) -> dict[str, object]:
    """Judge candidates, `in_flight` of them at once, and return the figures."""
    settings = EvaluationConfig(gpus=gpus).on("cuda")
    machine = this_machine()
    assert machine.gpu is not None
    language = Watched(local_language("triton", settings, device=machine.limits("cuda")))
    used = machine.gpus("cuda", wanted=gpus)
    samplers = [Sampler(gpu.index) for gpu in used]
    queued: list[tuple[float, float]] = []
    slots = asyncio.Semaphore(in_flight)
    begin = time.monotonic()
    async with open_evaluator("gemm", language, settings=settings, machine=machine) as evaluator:
        started = time.monotonic() - begin

        async def judge(source: str) -> Evaluation:
            async with slots:
                candidate = Candidate(source, "triton")
                program = language.program_hash(source)
                evaluation = await evaluator.evaluate(EvaluationRequest(candidate, program, Fidelity.QUICK))
                queued.append((language.built[candidate.source], time.monotonic()))
                return evaluation

        warm = variants(1, seed=0)[0]
        await asyncio.gather(*(judge(f"{warm}\nWARM = {number}\n") for number in range(len(used))))
        queued.clear()
        for sampler in samplers:
            sampler.start()
        begin = time.monotonic()
        found = await asyncio.gather(*(judge(source) for source in variants(count, seed=1)))
        wall = time.monotonic() - begin
        for sampler in samplers:
            sampler.stop()
    busy = [sample for sampler in samplers for sample in sampler.samples]
    return {"gpus": len(used), **report(found, wall_s=wall, start_s=started, busy=busy, queued=queued)}


def report(
    found: list[Evaluation],
    *,
    wall_s: float,
    start_s: float,
    busy: list[tuple[float, int]],
    queued: list[tuple[float, float]],
) -> dict[str, object]:
    """Return the figures; `queued` holds, for each candidate, the times of its build and of its answer, in s."""
    meanwhile = [share for at, share in busy if any(begin <= at <= end for begin, end in queued)]
    right = [each for each in found if each.ok]
    steps = {
        name: fmean(each.metrics.get(name, 0.0) for each in right)
        for name in sorted({name for each in right for name in each.metrics if name.endswith("_s")})
    }
    statuses = {status: sum(each.status == status for each in found) for status in {each.status for each in found}}
    return {
        "candidates": len(found),
        "statuses": {str(status): count for status, count in statuses.items()},
        "twins": sum(bool(each.metrics.get("twin")) for each in found),
        "start_s": start_s,
        "wall_s": wall_s,
        "per_second": len(found) / wall_s,
        "gpu_busy_percent": fmean(share for _, share in busy),
        "while judged work was queued": {
            "gpu_busy_percent": {"mean": fmean(meanwhile), "median": median(meanwhile), "samples": len(meanwhile)},
            "share_of_wall": len(meanwhile) / len(busy),
        },
        "mean_s_by_step": {**steps, "from asked to answered": fmean(each.duration_s for each in right)},
        "best": max(each.timings[0].speedup.value for each in right),
    }


def load_inline_s() -> float:
    """Return how long the usual way of compiling a trivial CUDA kernel for torch takes, in s."""
    from torch.utils.cpp_extension import load_inline

    source = "__global__ void twice(float* x, int n) { int i = blockIdx.x * 256 + threadIdx.x; if (i < n) x[i] *= 2; }"
    call = "void run(torch::Tensor x) { twice<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), x.numel()); }"
    begin = time.monotonic()
    load_inline("twice", "void run(torch::Tensor x);", source + call, functions=["run"])
    return time.monotonic() - begin


def main() -> None:
    """Measure as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--candidates", type=int, default=60)
    parser.add_argument("--in-flight", type=int, default=24)
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--load-inline", action="store_true", help="time torch's load_inline of a trivial kernel, too")
    given = parser.parse_args()
    found = asyncio.run(measure(given.candidates, given.in_flight, given.gpus))
    if given.load_inline:
        found["load_inline_s"] = load_inline_s()
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
