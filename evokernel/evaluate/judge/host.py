"""The judge host: it imports the judges' code once, and forks a judge process for each request of its engine.

A fork begins at once where a new interpreter would import torch for seconds. No GPU is touched before the fork, since a
driver's state cannot be forked. Torch's compiler, which takes seconds more and which a GPU's baselines need, is
imported while the host idles, once a fork has shown that the import starts no thread and opens no GPU.
"""

import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from evokernel.evaluate.inside.process.descriptors import keep_only
from evokernel.evaluate.inside.process.seal import PR_SET_PDEATHSIG, prctl
from evokernel.evaluate.memory import heap

STDOUT, STDERR, CHANNEL = 1, 2, 3
MESSAGE_BYTES, DESCRIPTORS = 1 << 20, 3
BENCHES = {"cpu": "evokernel.evaluate.judge.cpu_bench", "cuda": "evokernel.evaluate.judge.gpu_bench"}
SERVING = ("evokernel.evaluate.judge.process", "evokernel.evaluate.worker_mode.baseline_process")
COMPILER = {"cpu": (), "cuda": ("torch._dynamo", "torch._functorch.aot_autograd")}
"""What is imported when the first judge is at work. Without a GPU it would take the cores that time candidates. The
rest of the compiler, a third of the time, asks the driver for GPUs as it is imported.
"""


class _Fork(NamedTuple):
    """A judge that this host forked."""

    number: int
    """The engine's number of it."""
    pid: int
    ending: int
    """Pipe to the engine for the exit status."""


class _Request(NamedTuple):
    """A request as the fork sees it that becomes the judge."""

    environment: dict[str, str]
    """Variables beside those of the host."""
    descriptors: list[int]
    """Channel to the engine, file for stdout and stderr, pipe for the exit status."""


class JudgeHost:
    """Forks judges, ends them on request, and reports how they ended."""

    def __init__(self, control: socket.socket, engine: int, later: Sequence[str]) -> None:
        self._control = control
        self._later = later  # modules to import after the first fork
        self._probe = -1  # descriptor of the fork that tries them
        self._engine = os.pidfd_open(engine)
        self._forks: dict[int, _Fork] = {}  # by descriptor
        self._poller = select.poll()
        self._poller.register(control, select.POLLIN)
        self._poller.register(self._engine, select.POLLIN)

    def serve(self) -> _Request | None:
        """Answer until the engine closes the socket or ends; in a fork, return the request at once."""
        while True:
            for descriptor, _ in self._poller.poll():
                if descriptor == self._engine:
                    return None
                if descriptor == self._probe:
                    self._import_later(descriptor)
                    continue
                if descriptor != self._control.fileno():
                    self._report(descriptor)
                    continue
                text, descriptors, _, _ = socket.recv_fds(self._control, MESSAGE_BYTES, DESCRIPTORS)
                if not text:
                    return None
                message = json.loads(text)
                if "kill" in message:
                    self._kill(message["kill"])
                elif self._is_fork(message["judge"], descriptors):
                    return _Request(message["environment"], descriptors)

    def _is_fork(self, number: int, descriptors: list[int]) -> bool:
        """Fork a judge; say in which of the two processes this is."""
        pid = os.fork()
        if pid == 0:
            return True
        *others, ending = descriptors
        for descriptor in others:
            os.close(descriptor)
        handle = os.pidfd_open(pid)
        self._forks[handle] = _Fork(number, pid, ending)
        self._poller.register(handle, select.POLLIN)
        if self._later and self._probe < 0:
            self._try_later()
        return False

    def _try_later(self) -> None:
        """Import in a fork what this host is to import, so that it serves meanwhile, and learns what that would do."""
        pid = os.fork()
        if pid == 0:
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            before = _threads_and_devices()
            unharmed = _is_importable(self._later) and _threads_and_devices() == before
            os._exit(0 if unharmed else 1)
        self._probe = os.pidfd_open(pid)
        self._poller.register(self._probe, select.POLLIN)

    def _import_later(self, probe: int) -> None:
        self._poller.unregister(probe)
        ended = os.waitid(os.P_PIDFD, probe, os.WEXITED)
        os.close(probe)
        self._probe = -1  # a judge may get this number next
        later, self._later = self._later, ()
        if ended is not None and ended.si_code == os.CLD_EXITED and ended.si_status == 0 and _is_importable(later):
            gc.freeze()

    def _kill(self, number: int) -> None:
        for fork in self._forks.values():
            if fork.number == number:
                # By its id, its own until it is reaped here: gVisor has refused the descriptor of one that had ended.
                with suppress(ProcessLookupError):
                    os.kill(fork.pid, signal.SIGKILL)

    def _report(self, handle: int) -> None:
        fork = self._forks.pop(handle)
        self._poller.unregister(handle)
        os.close(handle)
        _, status = os.waitpid(fork.pid, 0)
        os.write(fork.ending, str(os.waitstatus_to_exitcode(status)).encode())
        os.close(fork.ending)


def _is_importable(names: Sequence[str]) -> bool:
    with suppress(Exception):  # whoever needs it says what is wrong with it
        for name in names:
            importlib.import_module(name)
        return True
    return False


def _threads_and_devices() -> tuple[int, list[str]]:
    """Return what a fork would lose or break: how many threads this process has, and which GPU files it holds."""
    held = []
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the descriptor of the listing itself
            held.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return len(os.listdir("/proc/self/task")), sorted(path for path in held if path.startswith("/dev/nvidia"))


def _become_judge(request: _Request, host: int) -> None:
    from evokernel.evaluate.judge.process import serve  # loaded before the fork; with it comes torch
    from evokernel.evaluate.worker_mode.baseline_process import fork_spare

    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != host:  # it died before the line above
        return
    os.setsid()
    keep_only(request.descriptors[:2], (CHANNEL, STDERR))
    os.dup2(STDERR, STDOUT)
    os.environ.update(request.environment)
    gc.enable()
    fork_spare()
    with socket.socket(fileno=CHANNEL) as connection:
        serve(connection)
    os._exit(0)  # nothing is left open; an interpreter tidies torch up for over a second, while an engine waits


def main(arguments: list[str]) -> None:
    """Serve on the descriptor `arguments[0]` the engine with the process id `arguments[1]`, for a device class."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    control, engine, device_class = arguments
    if os.getppid() != int(engine):
        return
    if device_class == "cpu":
        heap.keep_much()
    else:  # NVML's order, which chose the GPU to compile for; CUDA's puts the fastest first
        os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    host, own = JudgeHost(socket.socket(fileno=int(control)), int(engine), COMPILER[device_class]), os.getpid()
    gc.disable()  # collections would take a fifth of the time of the imports, which leave hardly any garbage
    for name in (BENCHES[device_class], *SERVING):
        importlib.import_module(name)
    gc.freeze()  # forks share the memory of objects that no collection touches
    request = host.serve()
    if request is not None:
        _become_judge(request, own)


if __name__ == "__main__":
    main(sys.argv[1:])
