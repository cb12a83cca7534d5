"""Waits in the sandbox, warm, and forks a sealed, single-use process of one program for each request.

A program is a module in this package with a function `run(spec, uid, descriptors, shared)`; the forked process ends
with it. `shared` is the result of its function named by `spec["prepare"]`, called before the first fork.
"""

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import tempfile
from typing import Any, NoReturn, Protocol, cast

from .reaper import end_orphans
from .seal import CLONE_NEWPID, LIBC, PR_SET_CHILD_SUBREAPER, PR_SET_DUMPABLE, check, prctl

MESSAGE_BYTES = 65536
DESCRIPTORS = 16
FAULT_CHARACTERS = 2000
STDERR, FAULT_EXIT = 2, 70


class ForkProgram(Protocol):
    """A module that a zygote can serve."""

    def run(self, spec: dict[str, Any], uid: int | None, descriptors: list[int], shared: Any) -> None:
        """Become the program, in a fresh fork; must seal itself before it touches anything untrusted."""


class Zygote:
    """The server loop: forks processes, reports their exits, and ends all of them with the judge."""

    def __init__(self, spec: dict[str, Any], control: socket.socket) -> None:
        self.spec = spec
        self.control = control
        self.judge = spec["judge"]
        gc.disable()  # collections would take a fifth of the time of the imports
        self.program, self.shared = load(spec)
        self.namespace = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self.forks: dict[int, tuple[int, int]] = {}  # by descriptor: number, process
        self.poller = select.poll()
        self.poller.register(self.control, select.POLLIN)
        self.poller.register(self.judge, select.POLLIN)

    def serve(self) -> None:
        """Answer until the control socket closes or the judge's process ends."""
        self.control.send(json.dumps({"hello": os.getpid()}).encode())
        gc.collect()
        gc.freeze()
        alive = True
        while alive:
            for descriptor, _ in self.poller.poll():
                if descriptor == self.judge:
                    alive = False
                elif descriptor == self.control.fileno():
                    alive = self._answer() and alive
                else:
                    self._reap(descriptor)
        self._end_all()

    def _answer(self) -> bool:
        message, descriptors, _, _ = socket.recv_fds(self.control, MESSAGE_BYTES, DESCRIPTORS)
        if not message:
            return False
        request = json.loads(message)
        try:
            pid = self._fork(request, descriptors)
        except OSError as error:
            self.control.send(json.dumps({"started": request["number"], "fault": str(error)}).encode())
            return True
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        handle = os.pidfd_open(pid)
        self.forks[handle] = (request["number"], pid)
        self.poller.register(handle, select.POLLIN)
        socket.send_fds(self.control, [json.dumps({"started": request["number"]}).encode()], [handle])
        return True

    def _fork(self, request: dict[str, Any], descriptors: list[int]) -> int:
        own_namespace = self.spec["own_pid_namespace"]
        if own_namespace:
            check(
                LIBC.unshare(CLONE_NEWPID), "unshare"
            )  # for the next child, which becomes the namespace's first process
        try:
            pid = os.fork()
            if pid == 0:
                self._become_program(request["uid"], descriptors)
        finally:
            if own_namespace:
                check(LIBC.setns(self.namespace, CLONE_NEWPID), "setns")
        return pid

    def _become_program(self, uid: int | None, descriptors: list[int]) -> NoReturn:
        code = FAULT_EXIT
        try:
            self.program.run(self.spec, uid, descriptors, self.shared)
            code = 0
        except BaseException as error:  # noqa: BLE001  the edge of the process: below it lies the zygote's own stack
            os.write(STDERR, f"{type(error).__name__}: {error}\n".encode(errors="replace"))
        finally:
            os._exit(code)

    def _reap(self, handle: int) -> None:
        number, pid = self.forks.pop(handle)
        self.poller.unregister(handle)
        os.close(handle)
        _, status = os.waitpid(pid, 0)
        orphans = end_orphans({pid for _, pid in self.forks.values()})
        report = {"ended": number, "status": status, "orphans": orphans}
        self.control.send(json.dumps(report).encode())

    def _end_all(self) -> None:
        for _, pid in self.forks.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for _, pid in self.forks.values():
            os.waitpid(pid, 0)
        end_orphans(set())


def load(spec: dict[str, Any]) -> tuple[ForkProgram, Any]:
    """Import the program and its preloads; return the program and the value its forks share.

    No untrusted code runs before this ends.
    """
    sys.path += spec["packages"]
    tempfile.tempdir = "/"  # dill, which torch imports, asks for a folder that can be written; here is none yet
    for name in spec["preload"]:
        importlib.import_module(name)
    program = cast(ForkProgram, importlib.import_module(f"..{spec['program']}", __package__))
    tempfile.tempdir = None
    return program, getattr(program, spec["prepare"])(spec) if spec["prepare"] else None


def main(spec: dict[str, Any]) -> None:
    """Serve as `spec` says."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    control = socket.socket(fileno=spec["control"])
    try:
        zygote = Zygote(spec, control)
    except Exception as error:  # noqa: BLE001  a foreign package's import may raise anything; the judge gets the message
        fault = f"{type(error).__name__}: {error}"[:FAULT_CHARACTERS]
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            control.send(json.dumps({"fault": fault}).encode())
        return
    prctl(PR_SET_DUMPABLE, 0)  # where a candidate has our user id, it must not get at our memory
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the judge died during a report
        zygote.serve()
    os._exit(0)  # an interpreter tidies torch up for half a second, while a judge or an engine waits
