"""The judge's end of a process that runs kernels: the handshake and the clock, alike for candidates and baselines.

A batch has two phases. `prepare` lets the process warm up and say "ready"; then it is stopped (SIGSTOP), so that it
cannot see contents before its time. `go` starts the clock, lets it continue, waits for "done", reads the clock, and
stops it again. The checks see the memory as it was at "done", even if the process lied about being finished. Candidates
and baselines pay the same for the wake-up.

The time of a process with one thread is the kernel scheduler's account of its running time, until it is stopped again.
Others on its core, a judge that is woken late, and work after an early "done" do not change that. A process that gave
its core up voluntarily may have waited for something: then the judge's clock counts. So it does where the account is
nearly 0: a virtual machine leaves out time that the host took, and after a pause its account may stand still to make up
for that.
"""

import contextlib
import json
import math
import os
import re
import select
import signal
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Self

from evokernel.errors import HarnessError, WorkerDied, WorkerTimeout

if TYPE_CHECKING:  # the engine imports this module while a judge process imports torch
    from evokernel.evaluate.memory.arena import Arena

MESSAGE_BYTES = 65536
STOP_TIMEOUT_S = 2.0
KILL_TIMEOUT_S = 5.0
SETTLED = frozenset("TtZX")
CPUCLOCK_SCHED = 2
_WAITS = re.compile(rb"^voluntary_ctxt_switches:\s*(\d+)", re.MULTILINE)
_MINOR_FAULTS = 7
"""Number of the field in /proc/PID/stat, counted from the state."""
OWN_WAITS = 3
"""Times that a runner may give its core up in a batch: for the next message, after a disturbance, to stop."""
BELIEVED_SHARE = 0.1
"""An account below this share of the possible running time has stood still."""


@dataclass(frozen=True, slots=True)
class SchedulerUsage:
    """The scheduler's account of a process."""

    ran_ns: int = 0
    """Time on a core."""
    queued_ns: int = 0
    """Time in the run queue."""
    waits: float = 0
    """Times that it gave a core up; infinite where the kernel does not say."""

    def time_since(self, before: "SchedulerUsage", elapsed_ns: int) -> int:
        """Return the time of a batch in ns, where the judge's clock shows `elapsed_ns`."""
        ran_ns = self.ran_ns - before.ran_ns
        running_ns = elapsed_ns - (self.queued_ns - before.queued_ns)
        stood_still = ran_ns <= 0 or ran_ns < BELIEVED_SHARE * running_ns
        return max(elapsed_ns, ran_ns) if stood_still or self.waits - before.waits > OWN_WAITS else ran_ns


class PeerProcess(ABC):
    """A process of ours that answers over a socket: questions, answers in time, and its end.

    With `spin` a loop that never sleeps waits for answers: the judge has a core of its own then, and pays no wake-up
    time.
    """

    def __init__(self, channel: socket.socket, handle: int, *, spin: bool = False) -> None:
        self._spin = spin
        self._channel = channel
        self._handle = handle
        self._pid = _pid_of(handle)
        self._poller = select.poll()
        self._poller.register(channel, select.POLLIN)
        self._closed = False

    @property
    def pid(self) -> int:
        """The process's number here."""
        return self._pid

    @abstractmethod
    def _died(self) -> WorkerDied:
        """Return the error that describes the process's end; a process that still runs is ended here."""

    def threads(self) -> int:
        """Return how many threads the process has; 0 when it is gone."""
        return len(self._task_states())

    def close(self) -> None:
        """End the process and all it started. Allowed twice."""
        if not self._closed:
            self._closed = True
            self._kill()
            self._channel.close()
            os.close(self._handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, request: Mapping[str, Any], descriptors: Sequence[int], expected: bytes, timeout_s: float) -> None:
        """Send a request and wait for the expected answer."""
        if self._closed:
            raise HarnessError("this process was closed")
        try:
            socket.send_fds(self._channel, [json.dumps(request).encode()], descriptors)
        except (BrokenPipeError, ConnectionResetError):
            raise self._died() from None
        self._await(expected, timeout_s)

    def _poll(self, patience_ms: int) -> Sequence[Any]:
        """Wait for a message; return nothing at the limit."""
        poll = self._poller.poll
        if not self._spin:
            return poll(patience_ms)
        deadline = time.monotonic_ns() + patience_ms * 1_000_000
        while not (answered := poll(0)) and time.monotonic_ns() < deadline:
            pass
        return answered

    def _await(self, expected: bytes, timeout_s: float) -> None:
        self._expect(expected, self._poller.poll(max(1, int(timeout_s * 1000))), timeout_s)

    def _expect(self, expected: bytes, answered: Sequence[Any], timeout_s: float) -> None:
        message = self._take(answered, timeout_s)
        if message != expected:
            self._refuse(message)

    def _take(self, answered: Sequence[Any], timeout_s: float) -> bytes:
        """Return the message that `poll` reported. Raises `WorkerDied`, `WorkerTimeout`."""
        if not answered:
            self._kill()
            raise WorkerTimeout(f"no answer within {timeout_s:g} s; killed")
        try:
            message = self._channel.recv(MESSAGE_BYTES, socket.MSG_DONTWAIT)
        except (ConnectionResetError, BlockingIOError):
            message = b""
        if not message:
            raise self._died()
        return message

    def _refuse(self, message: bytes) -> NoReturn:
        self._kill()
        raise WorkerDied(f"the process answered out of turn ({message[:40]!r}) and was killed")

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(OSError):  # of one that has ended; its end or its states are looked at next
            signal.pidfd_send_signal(self._handle, number)

    def _task_states(self) -> list[str]:
        folder = f"/proc/{self._pid}/task"
        states = []
        gone = contextlib.suppress(FileNotFoundError, ProcessLookupError)
        with gone:
            for task in os.listdir(folder):
                with (
                    gone,
                    open(f"{folder}/{task}/stat", "rb") as file,
                ):  # a thread that ends meanwhile must not hide others
                    states.append(chr(file.read().rpartition(b") ")[2][0]))
        return states

    def _kill(self) -> None:
        """Kill the process and wait until it is gone; the end of a namespace's first process ends all others in it."""
        self._signal(signal.SIGKILL)
        poller = select.poll()
        poller.register(self._handle, select.POLLIN)
        if not poller.poll(int(KILL_TIMEOUT_S * 1000)):
            raise HarnessError(f"process {self._pid} survived SIGKILL for {KILL_TIMEOUT_S:g} s")


class RunnerProcess(PeerProcess):
    """Shared half of `Worker` and `BaselineProcess`: batches of calls between a start and a stop.

    `one_thread`: the process computes in one thread, so the scheduler's account times its batches.
    """

    one_thread: bool = False

    def __init__(self, channel: socket.socket, handle: int, *, spin: bool = False) -> None:
        super().__init__(channel, handle, spin=spin)
        self._prepared = False
        self._stopped = False
        self._before = SchedulerUsage()
        self.ran_ns = 0
        """Time of the last batch by the scheduler's account alone, in ns; 0 without one."""
        self.faults = 0
        """Page faults of the last batch that needed no disk."""
        self._faults_before = 0

    @abstractmethod
    def attach(self, name: str, arena: "Arena", scalars: Mapping[str, int | float]) -> None:
        """Make an arena usable under a name."""

    def _await_writes(self) -> None:
        """Wait until the judge's writes to the buffers are done; a GPU's judge overrides it."""

    def prepare(
        self,
        arena: str,
        *,
        first_set: int,
        calls: int,
        warm_set: int | None = None,
        timeout_s: float,
        shut: bool = False,
    ) -> None:
        """Prepare `calls` calls on consecutive sets, after one untimed call on `warm_set`; then stop the process.

        Until `go`, it cannot see changes of the buffers. With `shut` its outputs cannot be written once the last call
        has returned: a thread that still works on them ends the process.

        Raises:
            WorkerDied, WorkerTimeout: the process is gone then.
        """
        request = {"prepare": arena, "first_set": first_set, "calls": calls, "warm_set": warm_set}
        if shut and not self.one_thread:
            request["shut"] = True
        self._ask(request, (), b"ready", timeout_s)
        self._stop()
        self._before = self._account()  # a process that wakes itself before `go` pays for that time
        self._faults_before = self._count_faults()
        self._prepared = True

    def go(self, *, timeout_s: float) -> int:
        """Run the prepared calls and stop the process again; return nanoseconds.

        Raises:
            WorkerDied, WorkerTimeout: the process is gone then.
            HarnessError: without a `prepare` before it.
        """
        if not self._prepared:
            raise HarnessError("go without prepare")
        self._await_writes()
        self._prepared = self._stopped = False
        patience_ms = max(1, int(timeout_s * 1000))
        clock, wake, handle = time.monotonic_ns, signal.pidfd_send_signal, self._handle
        try:
            self._channel.send(b"go")
            start = clock()
            wake(handle, signal.SIGCONT)
            answered = self._poll(patience_ms)
            elapsed = clock() - start
        except (BrokenPipeError, ConnectionResetError, ProcessLookupError):
            raise self._died() from None
        self._expect(b"done", answered, timeout_s)
        self._stop()
        self.faults = self._count_faults() - self._faults_before
        if not self.one_thread:
            return elapsed
        now = self._account()
        self.ran_ns = now.ran_ns - self._before.ran_ns
        return now.time_since(self._before, elapsed)

    def abandon(self) -> None:
        """Drop the prepared calls, if any, without running them; other requests are allowed again."""
        if self._prepared and not self._closed:
            self._prepared = False
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the next request reports that
                self._channel.send(b"no")

    def _account(self) -> SchedulerUsage:
        """Return the scheduler's account so far, exact only while the process is stopped.

        Empty where it has several threads. `waits` is infinite where the kernel does not say, and `queued_ns` is 0
        then.
        """
        if not self.one_thread:
            return SchedulerUsage()
        try:
            # the kernel's number for the account of a whole process, see clock_getcpuclockid(3)
            ran_ns = time.clock_gettime_ns(~self._pid << 3 | CPUCLOCK_SCHED)
            with open(f"/proc/{self._pid}/status", "rb") as file:
                waits = _WAITS.search(file.read())
        except OSError:
            raise self._died() from None
        return SchedulerUsage(ran_ns, self._queued_ns(), int(waits[1]) if waits else math.inf)

    def _count_faults(self) -> int:
        try:
            with open(f"/proc/{self._pid}/stat", "rb") as file:
                return int(file.read().rpartition(b") ")[2].split()[_MINOR_FAULTS])
        except OSError:
            raise self._died() from None

    def _queued_ns(self) -> int:
        try:
            with open(f"/proc/{self._pid}/schedstat", "rb") as file:
                return int(file.read().split()[1])
        except (OSError, ValueError, IndexError):  # kernels may be built without
            return 0

    def call(self, arena: str, *, first_set: int, calls: int, timeout_s: float) -> int:
        """Prepare without a warm-up, and go; return nanoseconds. Raises as `go` does."""
        self.prepare(arena, first_set=first_set, calls=calls, timeout_s=timeout_s)
        return self.go(timeout_s=timeout_s)

    def _ask(self, request: Mapping[str, Any], descriptors: Sequence[int], expected: bytes, timeout_s: float) -> None:
        if not self._closed:
            if self._prepared:
                raise HarnessError("between prepare and go nothing else can be asked")
            self._continue()
        super()._ask(request, descriptors, expected, timeout_s)

    def _continue(self) -> None:
        if self._stopped:
            self._stopped = False
            self._signal(signal.SIGCONT)

    def _stop(self) -> None:
        """Stop the process and wait until all its threads stand still."""
        self._signal(signal.SIGSTOP)
        self._stopped = True
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while not SETTLED.issuperset(self._task_states()):
            if time.monotonic() > deadline:
                self._kill()
                raise WorkerTimeout(f"the process could not be stopped within {STOP_TIMEOUT_S:g} s; killed")
            os.sched_yield()


def _pid_of(handle: int) -> int:
    with open(f"/proc/self/fdinfo/{handle}") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pid:"))
