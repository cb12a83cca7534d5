"""A process that a zygote forked for one candidate: its start, its output, its end."""

import os
import signal
import socket
from collections.abc import Sequence

from evokernel.errors import WorkerDied
from evokernel.evaluate.sandbox.fork_server import ForkServer, signal_name, tail_of
from evokernel.evaluate.sandbox.timed_process import KILL_TIMEOUT_S, PeerProcess, RunnerProcess

WROTE = "; it wrote: "
"""Precedes a worker's stderr in a message."""
ABORTED_EXIT = 128 + signal.SIGABRT


class ForkedProcess(PeerProcess):
    """One process of a zygote. A context manager: leaving it ends the process and all it started.

    `descriptors` are handed to the process between its channel and its stderr; the caller still owns them.
    """

    def __init__(self, host: ForkServer, descriptors: Sequence[int] = (), *, spin: bool = False) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._stderr = os.memfd_create("stderr", os.MFD_CLOEXEC)
        try:
            self._number, handle = host.fork((theirs.fileno(), *descriptors, self._stderr))
        except BaseException:
            ours.close()
            os.close(self._stderr)
            raise
        finally:
            theirs.close()
        self._host = host
        super().__init__(ours, handle, spin=spin)

    def stderr(self) -> str:
        """Return the end of the worker's stderr; untrusted text."""
        return tail_of(self._stderr)

    def close(self) -> None:
        """End the process and all it started. Allowed twice."""
        if not self._closed:
            super().close()
            os.close(self._stderr)
            self._host.forget(self._number)

    def _died(self) -> WorkerDied:
        ending = self._host.ending(self._number, 0.5)
        note = ""
        if ending is None:  # it closed its channel but still runs
            self._kill()
            ending = self._host.ending(self._number, KILL_TIMEOUT_S)
            note = " after it closed its channel"
        if ending is None:
            return WorkerDied("the worker is gone, and so is the zygote that could say why")
        code = ending.code
        text = self.stderr()
        tail = f"{WROTE}{text}" if text else ""
        number = signal.SIGABRT if code == ABORTED_EXIT else -code
        if number > 0:
            words = f"the worker was killed by {signal_name(number)}{note}{tail}"
            return WorkerDied(words, signal=None if note else number)  # with a note, this process killed it
        return WorkerDied(f"the worker exited with {code}{note}{tail}", exit_code=code)


class ForkedRunner(ForkedProcess, RunnerProcess):
    """One single-use worker that runs a candidate."""

    def remark(self) -> str:
        """Return the worker's own remark on how it was timed, or nothing; untrusted text."""
        return ""
