"""Waits in the sandbox for candidates and forks a sealed, single-use worker for each."""

import contextlib
import ctypes
import gc
import json
import os
import select
import signal
import socket
from typing import Any

from . import worker
from .seal import CLONE_NEWPID, LIBC, PR_SET_CHILD_SUBREAPER, PR_SET_DUMPABLE, check, prctl
from .tree import end_strangers

MESSAGE_BYTES = 65536


class Zygote:
    """The loop: starts workers, reports how they ended, and ends all of them when the judge is gone."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.control = socket.socket(fileno=spec["control"])
        self.judge = spec["judge"]
        # Loaded once, before any untrusted code is near; the forks inherit it.
        self.trampoline = ctypes.CDLL(f"/proc/self/fd/{spec['trampoline']}")
        self.namespace = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self.workers: dict[int, tuple[int, int]] = {}  # by descriptor: number, process
        self.poller = select.poll()
        self.poller.register(self.control, select.POLLIN)
        self.poller.register(self.judge, select.POLLIN)

    def serve(self) -> None:
        """Answer until the control socket closes or the judge's process ends."""
        self.control.send(json.dumps({"hello": os.getpid()}).encode())
        gc.collect()
        gc.freeze()
        gc.disable()
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
        message, descriptors, _, _ = socket.recv_fds(self.control, MESSAGE_BYTES, 3)
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
        self.workers[handle] = (request["number"], pid)
        self.poller.register(handle, select.POLLIN)
        socket.send_fds(self.control, [json.dumps({"started": request["number"]}).encode()], [handle])
        return True

    def _fork(self, request: dict[str, Any], descriptors: list[int]) -> int:
        own_namespace = self.spec["own_pid_namespace"]
        if own_namespace:
            check(LIBC.unshare(CLONE_NEWPID), "unshare")  # for the next child only, which becomes its first process
        try:
            pid = os.fork()
            if pid == 0:
                worker.run(self.spec, request["uid"], descriptors, self.trampoline)
        finally:
            if own_namespace:
                check(LIBC.setns(self.namespace, CLONE_NEWPID), "setns")
        return pid

    def _reap(self, handle: int) -> None:
        number, pid = self.workers.pop(handle)
        self.poller.unregister(handle)
        os.close(handle)
        _, status, usage = os.wait4(pid, 0)
        strangers = end_strangers({pid for _, pid in self.workers.values()})
        report = {"ended": number, "status": status, "max_rss_kib": usage.ru_maxrss, "strangers": strangers}
        self.control.send(json.dumps(report).encode())

    def _end_all(self) -> None:
        for _, pid in self.workers.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for _, pid in self.workers.values():
            os.waitpid(pid, 0)
        end_strangers(set())


def main(arguments: list[str]) -> None:
    """Serve as the JSON text in `arguments[0]` says."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    zygote = Zygote(json.loads(arguments[0]))
    prctl(PR_SET_DUMPABLE, 0)  # where a candidate has our user id, it must not get at our memory
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the judge died while being told something
        zygote.serve()
