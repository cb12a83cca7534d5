"""The judge's end of a runner: the process that launches recorded kernels, and its standby.

A runner serves one candidate after the other. It ends with the first kernel that fails, since that destroys the
context, and after a number of candidates in any case. The next runner makes its context before it is needed.
"""

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
_LOOKS = 200  # reads of the flag between two of the clock and the channel


@dataclass(frozen=True, slots=True)
class PreludeSize:
    """Size of the work before each batch."""

    size_bytes: int
    """Bytes that are copied."""
    multiprocessors: int
    """Multiprocessors that read every page of the buffers."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Calls on sets of an arena, one after the other in one stream."""

    arena: str
    """The arena's name."""
    shape: int
    """The number of the plan for every call."""
    sets: Sequence[int]
    """The set of each call, in order."""
    poison: int
    """Content of scratch before the first call, a word of 32 bits."""


@dataclass(frozen=True, slots=True)
class BatchTimes:
    """Times of one batch."""

    device_ns: float
    """Time between the device's events."""
    outer_ns: float
    """Time by the judge's clock around the batch; by the runner's where the judge does not spin."""
    interrupted: bool = False
    """The runner, or the judge where its clock counts, lost its core to another program: `outer_ns` is too long."""

    @property
    def beyond_ns(self) -> float:
        """The excess of that clock: launching, changing contexts, and any work a kernel has hidden."""
        return self.outer_ns - self.device_ns


class ArtifactRunner(ForkedProcess):
    """One runner. A wrong, late or missing answer is put down to the kernels it ran, and ends it."""

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
        """Say whether the runner is open and has not ended."""
        poller = select.poll()
        poller.register(self._handle, select.POLLIN)
        return not self._closed and not poller.poll(0)

    def wait_ready(self) -> None:
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
        """Load kernels by SHA-256, and the plan: `shapes` as checked, and whether kernels are `stateful`.

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
        """End the process and unmap the memory shared with it. Allowed twice."""
        if not self._closed:
            super().close()
            self._flags.close()

    def arm(self, batch: Batch) -> None:
        """Start building the graph of a batch; `fire` runs it. Raises `WorkerDied`."""
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
        """Wait until the batch can be fired. Raises `KernelFault`, `WorkerDied`, `WorkerTimeout`."""
        self._until(lambda: self._flags.armed == self._batch, timeout_s)

    def fire(self, timeout_s: float) -> BatchTimes:
        """Run the armed batch. Raises `KernelFault`, `WorkerDied`, `WorkerTimeout`.

        A judge without a core of its own sleeps while it waits, and would add its wake-up to the time: up to a
        millisecond, as long as the batch. The runner's clock stands in, since no host code of a candidate runs there.
        """
        before, begin = interruptions(), time.monotonic_ns()
        self._flags.go = self._batch
        self._until(lambda: self._flags.done == self._batch, timeout_s)
        outer_ns = float(time.monotonic_ns() - begin) if self._spin else self._flags.outer_ns
        lost = self._flags.interruptions or (self._spin and interruptions() > before)
        return BatchTimes(self._flags.device_ns, outer_ns, bool(lost))

    def _until(self, reached: Callable[[], bool], timeout_s: float) -> None:
        """Wait for a flag; a message in its place reports an error."""
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
    """Return the server that forks runners on these cores. Raises `HarnessError` where there is no GPU."""
    options = {
        "cpus": list(cpus),
        "prelude_bytes": prelude.size_bytes,
        "multiprocessors": prelude.multiprocessors,
        "spin": spin,
    }
    return ForkServer(sandbox, cuda_plan("runner.artifact_runner", sandbox, options=options))


class RunnerPool:
    """The runner in use and its standby. A context manager, for one thread."""

    def __init__(self, host: ForkServer, *, spin: bool = False) -> None:
        self._host = host
        self._used: ArtifactRunner | None = None
        self._spare = StandbyProcess(lambda: ArtifactRunner(host, spin=spin), "runner")

    def __enter__(self) -> Self:
        self._host.start()
        self._spare.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def take(self) -> ArtifactRunner:
        """Return a ready runner, the previous one where it still lives. Raises `HarnessError`."""
        if self._used is not None and (not self._used.alive or self._used.candidates >= CANDIDATES_PER_RUNNER):
            self._used.close()
            self._used = None
        if self._used is None:
            self._used = self._spare.take()
            self._spare.begin()
        return self._used

    def wait_ready(self) -> None:
        """Wait until the standby runner exists and is idle, so that it cannot disturb a clock."""
        self._spare.wait_ready()

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
