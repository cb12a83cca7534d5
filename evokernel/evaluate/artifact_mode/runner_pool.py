"""The judge's end of a runner: the process that launches recorded kernels, and the spare one behind it.

A runner serves one candidate after the other. It ends with the first kernel that fails, which takes its context along,
and after some number of candidates in any case; the next one has made its context before it is needed.
"""

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NoReturn, Self

from evokernel.errors import HarnessError, KernelFault, KilledFromOutside, WorkerDied, WorkerError
from evokernel.evaluate.inside.process.bundle import pack
from evokernel.evaluate.inside.process.shared_flag import SharedFlags, interruptions
from evokernel.evaluate.memory.arena import Arena
from evokernel.evaluate.sandbox.fork_server import ForkServer, sealed_file
from evokernel.evaluate.sandbox.forked import ForkedProcess
from evokernel.evaluate.sandbox.gpu_access import cuda_plan
from evokernel.evaluate.sandbox.levels import Sandbox
from evokernel.evaluate.sandbox.standby import StandbyProcess
from evokernel.evaluate.worker_mode.cpu_pool import LoadFailed

CANDIDATES_PER_RUNNER = 200
_UP_TIMEOUT_S = 60.0
_OURS_TIMEOUT_S = 60.0
_LOOKS = 200  # at a flag, between two at the clock and the channel


@dataclass(frozen=True, slots=True)
class PreludeSize:
    """What comes first in every batch: a copy of so many bytes, and a look at every page by all multiprocessors."""

    size_bytes: int
    multiprocessors: int


@dataclass(frozen=True, slots=True)
class Batch:
    """Calls on sets of an arena in this order, in one stream: call by call of the plan number `shape`.

    `poison` is what scratch holds before the first call, a word of 32 bits.
    """

    arena: str
    shape: int
    sets: Sequence[int]
    poison: int


@dataclass(frozen=True, slots=True)
class BatchTimes:
    """How long a batch took: by the device's events, and by the judge's clock around it; in ns.

    `interrupted` says that judge or runner lost its core to another program meanwhile: the clock around it shows that.
    """

    device_ns: float
    outer_ns: float
    interrupted: bool = False

    @property
    def beyond_ns(self) -> float:
        """What the judge's clock shows beyond the events: launching, changing contexts, what a kernel has hidden."""
        return self.outer_ns - self.device_ns


class ArtifactRunner(ForkedProcess):
    """One runner. Whatever it says wrong, or late, or not at all, is put down to the kernels it ran, and ends it."""

    def __init__(self, host: ForkServer, *, spin: bool) -> None:
        page = SharedFlags.make()
        try:
            super().__init__(host, (page,), spin=spin)
            self._flags = SharedFlags(page)
        finally:
            os.close(page)
        self._batch = 0
        self._up = False
        self.candidates = 0
        self.known: set[str] = set()

    @property
    def alive(self) -> bool:
        """Whether it can be used: nobody has closed it, and it has not ended."""
        poller = select.poll()
        poller.register(self._handle, select.POLLIN)
        return not self._closed and not poller.poll(0)

    def settle(self) -> None:
        """Wait until its context is made. Raises `WorkerError`, also where it ended after that."""
        if not self._up:
            self._await(b"up", _UP_TIMEOUT_S)
            self._up = True
        if not self.alive:
            raise self._died()

    def attach(self, name: str, arena: Arena, scalars: Mapping[str, int | float]) -> None:
        """Map an arena, its inputs read-only; scalars are part of the plans. Raises `HarnessError`."""
        try:
            self._ask({"attach": name, **arena.layout()}, arena.descriptors(), b"attached", _OURS_TIMEOUT_S)
        except WorkerError as error:
            raise HarnessError(f"the runner cannot map the buffers of {name}: {error}") from None

    def load(self, plan: Mapping[str, Any], cubins: Mapping[str, bytes], *, timeout_s: float) -> None:
        """Load compiled kernels, by SHA-256, and what to launch: `shapes` as checked, and whether they are `stateful`.

        Raises:
            KernelFault, WorkerDied, WorkerTimeout: the driver refuses a kernel; the runner is gone then.
        """
        files = {f"cubins/{digest}": image for digest, image in cubins.items()}
        text = json.dumps(plan, separators=(",", ":")).encode()
        try:
            document = sealed_file(pack({"plan.json": text, **files}))
        except ValueError as error:
            raise LoadFailed(str(error)) from None
        self.candidates += 1
        try:
            self._ask({"load": True}, (document,), b"loaded", timeout_s)
        finally:
            os.close(document)

    def drop(self) -> None:
        """Unload the candidate. Raises `WorkerError`."""
        self._ask({"drop": True}, (), b"dropped", _OURS_TIMEOUT_S)

    def close(self) -> None:
        """End the process and let go of what it shared with this one. Allowed twice."""
        if not self._closed:
            super().close()
            self._flags.close()

    def arm(self, batch: Batch) -> None:
        """Let it make a graph of a batch meanwhile; `fire` runs it. Raises `WorkerDied`."""
        if self._closed:
            raise HarnessError("this runner was closed")
        self._batch += 1
        request = {
            "batch": batch.arena,
            "number": self._batch,
            "shape": batch.shape,
            "sets": list(batch.sets),
            "poison": batch.poison,
        }
        try:
            self._channel.send(json.dumps(request).encode())
        except (BrokenPipeError, ConnectionResetError):
            raise self._died() from None

    def armed(self, timeout_s: float) -> None:
        """Wait until a batch can be fired. Raises `KernelFault`, `WorkerDied`, `WorkerTimeout`."""
        self._until(lambda: self._flags.armed == self._batch, timeout_s)

    def fire(self, timeout_s: float) -> BatchTimes:
        """Run what was armed. Raises `KernelFault`, `WorkerDied`, `WorkerTimeout`."""
        before, begin = interruptions(), time.monotonic_ns()
        self._flags.go = self._batch
        self._until(lambda: self._flags.done == self._batch, timeout_s)
        outer_ns = float(time.monotonic_ns() - begin)
        return BatchTimes(self._flags.device_ns, outer_ns, bool(self._flags.interruptions or interruptions() > before))

    def _until(self, reached: Callable[[], bool], timeout_s: float) -> None:
        """Wait for a flag; a message instead says what went wrong."""
        deadline = time.monotonic_ns() + int(timeout_s * 1e9)
        while True:
            for _ in range(_LOOKS):
                if reached():
                    return
            answered = self._poller.poll(0 if self._spin else 1)
            if answered or time.monotonic_ns() > deadline:
                self._refuse(self._take(answered, timeout_s))

    def _died(self) -> WorkerDied:
        died = super()._died()
        if died.signal == signal.SIGKILL:  # no recorded kernel can do that
            return KilledFromOutside(str(died), signal=died.signal)
        return died

    def _refuse(self, message: bytes) -> NoReturn:
        with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
            said = json.loads(message)
            kind, text = said["fault"], str(said["text"])
            self._kill()
            if kind == "ours":
                raise HarnessError(f"the runner failed: {text}")
            raise KernelFault(text, kind)
        super()._refuse(message)


def runner_host(
    sandbox: Sandbox, *, prelude: PreludeSize, cpus: tuple[int, ...] = (), spin: bool = False
) -> ForkServer:
    """Return what starts runners on these cores. Raises `HarnessError` where there is no GPU."""
    options = {
        "cpus": list(cpus),
        "prelude_bytes": prelude.size_bytes,
        "multiprocessors": prelude.multiprocessors,
        "spin": spin,
    }
    return ForkServer(sandbox, cuda_plan("runner.artifact_runner", sandbox, options=options))


class RunnerPool:
    """The runner in use and the one in waiting. A context manager; to be used by one thread."""

    def __init__(self, host: ForkServer, *, spin: bool = False) -> None:
        self._host = host
        self._used: ArtifactRunner | None = None
        self._spare = StandbyProcess(lambda: ArtifactRunner(host, spin=spin), "runner")

    def __enter__(self) -> Self:
        self._host.start()
        self._spare.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def take(self) -> ArtifactRunner:
        """Return a runner that is up, the same as before where it still is. Raises `HarnessError`."""
        if self._used is not None and (not self._used.alive or self._used.candidates >= CANDIDATES_PER_RUNNER):
            self._used.close()
            self._used = None
        if self._used is None:
            self._used = self._spare.take()
            self._spare.begin()
        return self._used

    def settle(self) -> None:
        """See to it that there is a runner in waiting, and that it does nothing any more, beside a clock say."""
        self._spare.settle()

    def pids(self) -> set[int]:
        """Return the processes that hold a context, or make one."""
        return self._spare.pids() | ({self._used.pid} if self._used is not None else set())

    def close(self) -> None:
        """End everything. Allowed twice."""
        if self._used is not None:
            self._used.close()
            self._used = None
        self._spare.close()
        self._host.close()
