"""A judge that answers by a script, for GPUs that are not there: the protocol of the real one, without a process."""

import asyncio
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from evokernel.evaluate.client.judge_process import JudgeClient, JudgeLost
from evokernel.evaluate.device.nvml import GpuFacts
from evokernel.evaluate.wire import PhaseVerdict
from evokernel.records.build import Built
from evokernel.records.evaluation import Stage, Status
from evokernel.records.timing import Timing, Verdict
from evokernel.task import Task
from tests.support.fakes import H100

Answer = Callable[["Judge", Mapping[str, Any]], PhaseVerdict | None]
"""What to answer in place of the usual; None for the usual. May raise `JudgeLost`."""


def gpus(count: int) -> tuple[GpuFacts, ...]:
    return tuple(replace(H100, index=index, uuid=f"GPU-{index}") for index in range(count))


def timing(workload: str = "w") -> Timing:
    return Timing(workload, "torch", 1.0, 10.0, 20.0, math.log(2), 0.001, 10, Verdict.FASTER)


@dataclass(slots=True)
class Judge(JudgeClient):
    """One judge; `seen` are the operations it was asked for, `judged` all sources, `candidate` the present one.

    `blobs` are the numbers of files that came with each source.
    """

    bench: "Judges"
    gpu: str
    setup: Mapping[str, Any]
    alive: bool = True
    candidate: str = ""
    seen: list[str] = field(default_factory=list)
    judged: list[str] = field(default_factory=list)
    blobs: list[int] = field(default_factory=list)

    async def ask(self, message: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> dict[str, Any]:
        if not self.alive:
            raise JudgeLost("not running")
        self.seen.append(message["op"])
        if message["op"] == "start":
            self.setup = message
            return self.bench.hello(self)
        if "source" in message:
            self.candidate = message["source"].strip()
            self.judged.append(self.candidate)
            self.blobs.append(len(blobs))
        self.bench.busy.add(self)
        self.bench.most_busy = max(self.bench.most_busy, len(self.bench.busy))
        try:
            await asyncio.sleep(0.01)
            return (self.bench.answer(self, message) or self._usual(message["op"])).as_message()
        finally:
            self.bench.busy.discard(self)

    def _usual(self, operation: str) -> PhaseVerdict:
        if operation == "check":
            return PhaseVerdict(None, Stage.CORRECTNESS)
        if self.setup["final"]:
            return PhaseVerdict(Status.OK, Stage.FINAL, timings=(timing(), timing("holdout:w")))
        return PhaseVerdict(Status.OK, Stage.QUICK, "fine", timings=(timing(),))

    async def close(self, *, kill: bool = False) -> None:
        self.alive = False

    def __hash__(self) -> int:
        return id(self)


@dataclass(slots=True)
class Judges:
    """Starts judges and remembers them; `refuse` says why one cannot start on a GPU, or nothing."""

    answer: Answer = lambda judge, message: None
    refuse: Callable[[str], str] = lambda gpu: ""
    device: Callable[[str], str] = lambda gpu: "NVIDIA H100"
    started: list[Judge] = field(default_factory=list)
    busy: set[Judge] = field(default_factory=set)
    most_busy: int = 0
    _draws: Any = field(default_factory=itertools.count)

    async def __call__(
        self, setup: Mapping[str, Any], *, environment: Mapping[str, str]
    ) -> tuple[Judge, dict[str, Any]]:
        judge = await self._launched(setup, environment)
        return judge, self.hello(judge)

    async def prepare(
        self, setup: Mapping[str, Any], *, environment: Mapping[str, str]
    ) -> tuple[Judge, dict[str, Any]]:
        judge = await self._launched(setup, environment)
        drawn = [{"M": 1, "N": next(self._draws)}]
        return judge, {"probes": drawn, "hidden_shapes": drawn}

    async def _launched(self, setup: Mapping[str, Any], environment: Mapping[str, str]) -> Judge:
        await asyncio.sleep(0.001)
        gpu = environment.get("CUDA_VISIBLE_DEVICES", "")
        if reason := self.refuse(gpu):
            raise JudgeLost(reason)
        self.started.append(Judge(self, gpu, setup))
        return self.started[-1]

    def hello(self, judge: Judge) -> dict[str, Any]:
        return {
            "device": self.device(judge.gpu),
            "sheet": {"dram_read_gb_s": 3000.0},
            "sandbox": "full",
            "baseline_us": {},
            "distributions": ["normal", "patchwork"],
            "hidden_shapes": judge.setup.get("probes") or [{"M": 1, "N": next(self._draws)}],
        }

    @property
    def alive(self) -> list[Judge]:
        return [judge for judge in self.started if judge.alive]


@dataclass(slots=True)
class ShapedLanguage:
    """A language that compiles for shapes; remembers for which. What stands after `#` does not change what is built.

    `checked` is the executable with sanitizers.
    """

    name: str = "triton"
    suffix: str = ".py"
    syntax: str = "python"
    environment: str = "toy"
    built_for: list[tuple[str, Any]] = field(default_factory=list)
    checked: bytes | None = None
    dtypes: list[str] = field(default_factory=list)

    def warm(self) -> None:
        return None

    def program_hash(self, source: str) -> str:
        return source

    def static_check(self, source: str) -> str | None:
        return None

    def build(self, source: str, task: Task, *, hidden: Any = ()) -> Built:
        self.built_for.append((source, hidden))
        self.dtypes.append(task.signature.tensors[0].dtype)
        return Built(source.encode(), source.partition("#")[0], {}, {})

    def build_checked(self, source: str, task: Task) -> bytes | None:
        return self.checked

    def guide(self, task: Task) -> str:
        return ""
