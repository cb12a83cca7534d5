"""A process without a GPU that speaks a runner's language and then misbehaves, and what its tests share."""

import itertools
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from evokernel.errors import HarnessError, KernelFault, KilledFromOutside, WorkerDied
from evokernel.evaluate.artifact_mode.runner_pool import ArtifactRunner, Batch
from evokernel.evaluate.sandbox.fork_server import Fork, ForkExit, ForkServer
from evokernel.evaluate.sandbox.levels import INSIDE

PATIENCE_S = 600.0
NS_PER_CALL, OUTER_NS_PER_CALL = 1500.0, 1700.0  # as the stand-in says
CUBINS = {64 * "a": b"first", 64 * "b": b"second"}

# A plan says what goes wrong, and when: before it is "up", on "load", on "batch" (before it is armed), "go" or "drop".
STAND_IN = """
import json, os, signal, socket, sys, time

folder, channel, page, plan = sys.argv[1:]
sys.path.append(folder)
from inside.process.bundle import unpack
from inside.process.shared_flag import SharedFlags

channel, flags, plan = socket.socket(fileno=int(channel)), SharedFlags(int(page)), json.loads(plan)


def come(event):
    deed = plan if plan.get("on") == event else {}
    match deed:
        case {"says": text}:
            channel.send(text.encode("latin-1"))
        case {"exits": code}:
            print("bye", file=sys.stderr, flush=True)
            os._exit(code)
        case {"signal": number}:
            os.kill(os.getpid(), number)
        case {"hangs up": True}:
            channel.close()
    if deed:
        time.sleep(600)


def run(request):
    come("batch")
    flags.armed = request["number"]
    while flags.go < request["number"]:
        time.sleep(0)
    come("go")
    lost = int(plan.get("on") == "interruption")
    calls = len(request["sets"])
    flags.finish(request["number"], device_ns=1500.0 * calls, outer_ns=1700.0 * calls, interruptions=lost)


come("up")
channel.send(b"up")
while True:
    message, descriptors, _, _ = socket.recv_fds(channel, 65536, 2)
    if not message:
        break
    match json.loads(message):
        case {"load": True}:
            with open(descriptors[0], "rb") as file:
                files = unpack(file.read())
            plan = json.loads(files.pop("plan.json"))
            if plan.get("on") == "echo":
                plan = {"on": "load", "says": json.dumps({"fault": "device", "text": " ".join(sorted(files))})}
            come("load")
            channel.send(b"loaded")
        case {"drop": True}:
            come("drop")
            channel.send(b"dropped")
        case {"attach": name, "buffers": buffers}:
            for descriptor in descriptors:
                os.close(descriptor)
            known = name == "x:1" and len(descriptors) == 2 and [each[0] for each in buffers] == ["x", "y"]
            channel.send(b"attached" if known else b"no")
        case {"batch": "x:1", **request}:
            run(request)
"""


class StandInHost(ForkServer):
    """What a zygote does for the judge, done by plain processes.

    `scripts` say what goes wrong with the next ones before they are up; `processes` are those not yet forgotten; none
    can be started while it is `exhausted`.
    """

    def __init__(self) -> None:
        self.scripts: list[dict[str, Any]] = []
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.exhausted = False
        self._fresh_numbers = itertools.count(100)  # not those of batches

    def fork(self, descriptors: Sequence[int]) -> Fork:
        if self.exhausted:
            raise HarnessError("no more processes")
        channel, page, stderr = descriptors
        script = json.dumps(self.scripts.pop(0) if self.scripts else {})
        argv = [sys.executable, "-ISc", STAND_IN, str(INSIDE.parent), str(channel), str(page), script]
        process = subprocess.Popen(argv, pass_fds=(channel, page), stderr=stderr)
        number = next(self._fresh_numbers)
        self.processes[number] = process
        return Fork(number, os.pidfd_open(process.pid))

    def ending(self, number: int, timeout_s: float) -> ForkExit | None:
        try:
            code = self.processes[number].wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        return ForkExit(-code if code < 0 else code << 8, 0)

    def forget(self, number: int) -> ForkExit | None:
        ended = self.ending(number, PATIENCE_S)
        del self.processes[number]
        return ended

    def start(self) -> None:
        """Do nothing: a process is started when it is asked for."""

    def close(self) -> None:
        """Do nothing: whoever started a process ends it."""


def load(runner: ArtifactRunner, *, timeout_s: float = PATIENCE_S, **plan: Any) -> None:
    runner.load(plan, CUBINS, timeout_s=timeout_s)


def batch(runner: ArtifactRunner, *sets: int, timeout_s: float = PATIENCE_S):
    runner.arm(Batch("x:1", 0, sets, 0))
    runner.armed(timeout_s)
    return runner.fire(timeout_s)


def is_gone(pid: int) -> bool:
    """Whether a process has ended; that nobody has asked how does not matter."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b") ")[2][:1] in b"ZX"
    except FileNotFoundError:
        return True


def wait_for_end(pid: int) -> None:
    handle = os.pidfd_open(pid)
    poller = select.poll()
    poller.register(handle, select.POLLIN)
    assert poller.poll(1000 * PATIENCE_S)
    os.close(handle)


def descriptors_held() -> int:
    """Return how many descriptors this process has."""
    return len(os.listdir("/proc/self/fd"))


def said(text: str, fault: Any = "device") -> dict[str, Any]:
    return {"says": json.dumps({"fault": fault, "text": text})}


WRONG: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "a fault": (said("CUDA error 700"), KernelFault, "^CUDA error 700$"),
    "our fault": (said("KeyError: 'x'", "ours"), HarnessError, "the runner failed: KeyError: 'x'"),
    "an exit": ({"exits": 3}, WorkerDied, "the worker exited with 3; it wrote: bye"),
    "a crash": ({"signal": int(signal.SIGSEGV)}, WorkerDied, "the worker was killed by SIGSEGV"),
    "a kill": ({"signal": int(signal.SIGKILL)}, KilledFromOutside, "the worker was killed by SIGKILL"),
    "hanging up": ({"hangs up": True}, WorkerDied, "killed by SIGKILL after it closed its channel"),
    "no JSON": ({"says": "\xff{"}, WorkerDied, "answered out of turn"),
    "no object": ({"says": "[1, 2]"}, WorkerDied, "answered out of turn"),
    "a fault without a text": ({"says": '{"fault": "device"}'}, WorkerDied, "answered out of turn"),
    "another answer": ({"says": "attached"}, WorkerDied, "answered out of turn"),
}


def go_through(runner: ArtifactRunner, *, on: str, timeout_s: float = PATIENCE_S, **deed: Any) -> None:
    """Load, run and unload a candidate; `timeout_s` is for what comes with the event."""
    load(runner, timeout_s=timeout_s if on == "load" else PATIENCE_S, on=on, **deed)
    runner.arm(Batch("x:1", 0, (0,), 0))
    runner.armed(timeout_s if on == "batch" else PATIENCE_S)
    runner.fire(timeout_s if on == "go" else PATIENCE_S)
    runner.drop()
