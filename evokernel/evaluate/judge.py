"""The judge: a process of its own that owns secrets, clock and verdict, and does what one engine asks, one by one."""

import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from evokernel.errors import HarnessError, WorkerError
from evokernel.evaluate.bench import Bench
from evokernel.evaluate.clockwork import Request, time_candidate
from evokernel.evaluate.ground import Kind
from evokernel.evaluate.inside.seal import PR_SET_PDEATHSIG, prctl
from evokernel.evaluate.stages import Session, check, failure
from evokernel.evaluate.timing import Plan
from evokernel.evaluate.wire import Message, pack, receive
from evokernel.evaluation import Budget, Stage

_STAGES = {Budget.QUICK: Stage.QUICK, Budget.PRECISE: Stage.PRECISE, Budget.FINAL: Stage.FINAL}


class Judge:
    """Answers `start`, `check` and `time`, in that order; `check` opens a candidate, `time` closes it."""

    def __init__(self) -> None:
        self._bench: Bench | None = None
        self._session: Session | None = None

    def answer(self, message: Mapping[str, Any], blobs: list[bytes]) -> Message:
        """Return the answer to one message. Raises whatever went wrong."""
        match message["op"]:
            case "start":
                return self._start(message)
            case "check":
                return self._check(message["source"], blobs)
            case "time":
                return self._time(message)
        raise HarnessError(f"unknown question {message['op']!r}")

    def close(self) -> None:
        """End the worker, the zygote and the baseline process."""
        self._drop()
        if self._bench is not None:
            self._bench.close()

    def _start(self, message: Mapping[str, Any]) -> Message:
        self._bench = bench = make_bench(message)
        return {
            "device": bench.device_name,
            "hidden_shapes": bench.hidden_shapes,
            "sheet": bench.sheet,
            "sandbox": bench.sandbox.describe(),
            "baseline_us": {
                ground.workload.name: ground.baseline_us for ground in bench.timed if ground.kind is Kind.SEARCH
            },
        }

    def _check(self, source: str, blobs: list[bytes]) -> Message:
        if self._bench is None:
            raise HarnessError("check before start")
        self._drop()
        try:
            self._session = Session(self._bench, blobs[0], source)
        except WorkerError as error:
            return failure(error, Stage.SMOKE, "while loading").as_message()
        outcome = check(self._session, blobs[1] if len(blobs) > 1 else None)
        if outcome.status is not None:
            self._drop()
        return outcome.as_message()

    def _time(self, message: Mapping[str, Any]) -> Message:
        if self._session is None:
            raise HarnessError("time before check")
        plan = Plan(message["budget_s"], half_width=message["half_width"])
        stage = _STAGES[Budget(message["budget"])]
        request = Request(stage, plan, confirm_s=message["confirm_s"], incumbent=message["incumbent"])
        began = time.monotonic()
        neighbours = self._session.bench.quiet()
        if neighbours:
            raise HarnessError(f"{neighbours}; nothing is timed beside others")
        waited = time.monotonic()
        outcome = time_candidate(self._session, request)
        conditions = self._session.bench.conditions()
        self._drop()
        metrics = {"wait_s": waited - began, "time_s": time.monotonic() - waited}
        return replace(outcome, metrics={**outcome.metrics, **metrics, **conditions}).as_message()

    def _drop(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None


def make_bench(setup: Mapping[str, Any]) -> Bench:
    """Return the bench of the device class that the setup names."""
    if setup["device"] == "cuda":
        # NVML's order, in which the GPU to compile for was found; CUDA's own puts the fastest first.
        os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
        from evokernel.evaluate.cuda.bench import CudaBench

        return CudaBench(setup)
    from evokernel.evaluate.cpu_bench import CpuBench

    return CpuBench(setup)


def serve(connection: socket.socket) -> None:
    """Answer until the other end closes."""
    with contextlib.closing(Judge()) as judge:
        while True:
            try:
                message, blobs = receive(connection)
            except EOFError:
                return
            try:
                answer = judge.answer(message, blobs)
            except Exception as error:  # noqa: BLE001 - the edge of the process: the engine must hear of any fault
                answer = {"error": type(error).__name__, "text": str(error) or repr(error)}
            connection.sendall(pack(answer))


def main(arguments: list[str]) -> None:
    """Serve on the descriptor in `arguments[0]` for the process whose id is `arguments[1]`."""
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(arguments[1]):  # it died before the line above
        return
    with contextlib.suppress(BrokenPipeError, ConnectionResetError), socket.socket(fileno=int(arguments[0])) as end:
        serve(end)


if __name__ == "__main__":
    main(sys.argv[1:])
