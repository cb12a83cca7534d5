"""Stand-ins that implement our protocols: an evaluator that answers at once and a language without a compiler."""

import asyncio
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Self

from evokernel.evaluate.device.nvml import GpuFacts
from evokernel.records.build import Built
from evokernel.records.evaluation import Evaluation, EvaluationRequest, EvaluatorIdentity, Fidelity, Mode, Stage, Status
from evokernel.records.timing import Timing, Verdict
from evokernel.source.tunables import read_tunables
from evokernel.task import Task

PARTS_OF_A_GPU = {
    "gpu",
    "torch cuda",
    "triton",
    "nvrtc",
    "toolkit",
    "gpu nodes",
    "gpu load",
    "counters",
    "profiler",
    "sanitizer",
}
"""What doctor has a line for wherever there is a GPU."""
H100 = GpuFacts(
    name="NVIDIA H100",
    index=0,
    uuid="GPU-00000000-0000-0000-0000-000000000000",
    capability=90,
    multiprocessors=132,
    shared_bytes=227 << 10,
    registers_per_multiprocessor=65536,
    threads_per_multiprocessor=2048,
    memory_bytes=80 << 30,
    driver="570.133.20",
)
"""What the driver says of a GPU, for tests on machines without one."""

TOY = """// a toy
constexpr int A = 1;  // tune: 1 2 4 8 16
constexpr int B = 3;  // tune: 1 2 3 4 5 6
// tune-where: A * B <= 64
extern "C" void run() {}
"""

WIDE_TOY = TOY.replace("1 2 4 8 16", " ".join(map(str, range(1, 60)))).replace("A * B <= 64", "A * B <= 10000")
"""A toy with more points than a test tries."""


def toy_speed(source: str) -> float | None:
    """The speed-up of a toy: best at A = 8, B = 4; A = 16 is wrong."""
    values = read_tunables(source).values
    if values.get("A") == 16:
        return None
    return math.exp(-0.3 * abs(math.log2(values.get("A", 1)) - 3) - 0.2 * abs(values.get("B", 1) - 4))


class ToyLanguage:
    """A language whose programs are never built."""

    name = "cpp"
    suffix = ".cpp"
    syntax = "cpp"
    environment = "toy"

    def warm(self) -> None:
        return None

    def program_hash(self, source: str) -> str:
        lines = [line.partition("//")[0].strip() for line in source.splitlines()]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]

    def static_check(self, source: str) -> str | None:
        return None

    def build(self, source: str, task: Task, *, hidden: Sequence[Mapping[str, int | float]] = ()) -> Built:
        return Built(source.encode(), self.program_hash(source), {}, {})

    def build_checked(self, source: str, task: Task) -> bytes | None:
        return None

    def guide(self, task: Task) -> str:
        return ""


class InstantEvaluator:
    """Judges by a function of the source; remembers what it was asked. Ready at once, whether entered or not."""

    def __init__(
        self,
        speed: Callable[[str], float | None] = toy_speed,
        *,
        holds: Callable[[str], bool] = lambda source: True,
        fails: Callable[[EvaluationRequest], Exception | None] = lambda request: None,
        identity: EvaluatorIdentity = EvaluatorIdentity(  # noqa: B008 - frozen
            "task", "toy device", "toy", "1", Mode.WORKER, {"peak_gflops": 1.0}, "none"
        ),
    ) -> None:
        self.asked: list[EvaluationRequest] = []
        self._speed = speed
        self._holds = holds
        self._fails = fails
        self.identity = identity

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        self.asked.append(request)
        await asyncio.sleep(0)
        failure = self._fails(request)
        if failure is not None:
            raise failure
        key = self.identity.key(request.program_hash, request.budget)
        speed = self._speed(request.candidate.source)
        if speed is None:
            return Evaluation(key, request.candidate.id, Status.NUMERICAL, Stage.CORRECTNESS, feedback="wrong")
        if request.budget is Fidelity.FINAL and not self._holds(request.candidate.source):
            return Evaluation(key, request.candidate.id, Status.HOLDOUT_FAILED, Stage.FINAL, feedback="held out")
        timing = Timing("w", "torch", 1.0, 1e3 / speed, 1e3, math.log(speed), 0.001, 10, Verdict.FASTER, 100.0)
        descriptor = {"vector_bits": 512.0 if speed > 0.5 else 0.0}
        return Evaluation(
            key, request.candidate.id, Status.OK, Stage.QUICK, timings=(timing,), descriptor=descriptor, sandbox="none"
        )
