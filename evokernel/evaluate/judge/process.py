"""The judge process: it owns secrets, clock and verdict, and answers one engine's questions in order."""

import contextlib
import importlib
import math
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from evokernel.errors import HarnessError, WorkerError
from evokernel.evaluate.bench.bench import Bench
from evokernel.evaluate.bench.candidate_session import CandidateSession
from evokernel.evaluate.bench.feedback import failure, other_arguments
from evokernel.evaluate.bench.groundwork import pin_to
from evokernel.evaluate.bench.setup import BenchSetup
from evokernel.evaluate.bench.workload import WorkloadPurpose
from evokernel.evaluate.judge.checks import check, check_added
from evokernel.evaluate.judge.timing_stage import Request, time_candidate
from evokernel.evaluate.numerics.hidden_shapes import probe_workloads
from evokernel.evaluate.numerics.odd_shapes import compiled_workloads
from evokernel.evaluate.numerics.statistics import StoppingRule
from evokernel.evaluate.wire import Message, PhaseVerdict, pack, receive
from evokernel.evaluate.worker_mode.baseline_process import panel_functions
from evokernel.records.evaluation import Fidelity, Stage, Status
from evokernel.records.hidden_check import HiddenCheck
from evokernel.tasks import load_task
from evokernel.tasks.compiled import Compiled

if TYPE_CHECKING:  # each imports what the other device class does not need
    from evokernel.evaluate.judge.cpu_bench import CpuBench
    from evokernel.evaluate.judge.gpu_bench import CudaBench

_CONDITIONS_S = 3.0
_OUT_OF_MEMORY_CHARACTERS = 250
_STAGES = {Fidelity.QUICK: Stage.QUICK, Fidelity.PRECISE: Stage.PRECISE, Fidelity.FINAL: Stage.FINAL}


class JudgeServer:
    """Answers `check` and `time`, in that order; `check` opens a candidate, `time` closes it.

    `hire`, after a successful `check`, makes the open kernel one of the baselines instead. `check` comes with the
    hidden checks that the run has added, and may ask for those alone; `admit` asks whether a further one is fit.
    """

    def __init__(self, opened: "CpuBench | CudaBench") -> None:
        self._bench = opened.bench
        self._open_session = opened.open_session
        self._session: CandidateSession | None = None
        self._mode = self._artifact = ""
        self._asked, self._latest = -math.inf, dict[str, float]()

    def hello(self) -> Message:
        """Return the judge's description of itself."""
        return {
            "device": self._bench.device.name,
            "hidden_shapes": self._bench.hidden_shapes,
            "distributions": self._bench.task.distributions,
            "sheet": self._bench.sheet,
            "sandbox": self._bench.sandbox.describe(),
            "baseline_us": _baseline_us(self._bench),
        }

    def answer(self, message: Mapping[str, Any], blobs: list[bytes]) -> Message:
        """Return the answer to one message. Raises any error of the work."""
        match message["op"]:
            case "check":
                return self._alone(lambda: self._check(message, blobs))
            case "time":
                return self._alone(lambda: self._time(message))
            case "hire":
                return self._add_expert(message["expert"])
            case "admit":
                return self._admit(HiddenCheck.from_message(message["check"]))
        raise HarnessError(f"unknown question {message['op']!r}")

    def close(self) -> None:
        """End the candidate that is open, if there is one."""
        if self._session is not None:
            self._session.close()
            self._session = None
            self._bench.repair()  # right kernels' buffers, too: the kernel clears words for a thread that ends

    def _add_expert(self, expert: str) -> Message:
        self.close()
        with self._bench.device.lease():
            self._bench.add_expert(expert)
        return {"baseline_us": _baseline_us(self._bench)}

    def _admit(self, check: HiddenCheck) -> Message:
        with self._bench.device.lease():
            return {"refusal": self._bench.refusal_of(check)}

    def _alone(self, work: Callable[[], PhaseVerdict]) -> Message:
        """Do some work while no other judge uses the device; the answer names the candidate's mode."""
        with self._bench.device.lease():
            outcome = work()
        return replace(outcome, mode=self._mode, artifact=self._artifact).as_message()

    def _check(self, message: Mapping[str, Any], blobs: list[bytes]) -> PhaseVerdict:
        self.close()
        self._mode = self._artifact = ""
        began = time.monotonic()
        self._bench.take_checks([*map(HiddenCheck.from_message, message.get("added", ()))])
        try:
            self._session = self._open_session(blobs[0], message["source"])
        except WorkerError as error:
            return failure(error, Stage.SMOKE, "while loading")
        self._mode, self._artifact = self._session.mode.value, self._session.artifact
        opened = {"open_s": time.monotonic() - began}
        if message.get("only_added", False):
            outcome = check_added(self._session)
            self.close()
            return outcome
        outcome = check(
            self._session,
            blobs[1] if len(blobs) > 1 else None,
            thoroughly=message["sanitize"],
            numbers=message.get("numbers", ()),
        )
        outcome = replace(outcome, metrics={**outcome.metrics, **opened})
        if outcome.status is None:
            return outcome
        self.close()
        hint = other_arguments(message["source"], self._bench.task.signature)
        return replace(outcome, feedback=f"{outcome.feedback}\n{hint}".rstrip("\n"))

    def _time(self, message: Mapping[str, Any]) -> PhaseVerdict:
        if self._session is None:
            raise HarnessError("time before check")
        plan = StoppingRule(message["budget_s"], half_width=message["half_width"])
        stage = _STAGES[Fidelity(message["budget"])]
        request = Request(stage, plan, confirm_s=message["confirm_s"], incumbent=message["incumbent"])
        began, bench = time.monotonic(), self._session.bench
        neighbours = bench.device.quiet()
        if neighbours:
            raise HarnessError(f"{neighbours}; nothing is timed beside others")
        waited = time.monotonic()
        outcome = time_candidate(self._session, request)
        timed = time.monotonic()
        if outcome.status is Status.OK and message["profile"]:
            profile = self._session.profile(outcome.timings)
            outcome = replace(outcome, remarks=profile.remarks, metrics={**outcome.metrics, **profile.metrics})
        profiled = time.monotonic()
        self.close()
        metrics = {"wait_s": waited - began, "time_s": timed - waited, "close_s": time.monotonic() - profiled}
        return replace(outcome, metrics={**outcome.metrics, **metrics, **self._conditions()})

    def _conditions(self) -> dict[str, float]:
        """Return the device's state, at most some seconds old: a query takes as long as a part of a measurement."""
        if time.monotonic() - self._asked > _CONDITIONS_S:
            self._asked, self._latest = time.monotonic(), self._bench.device.conditions()
        return self._latest


def _baseline_us(bench: Bench) -> dict[str, dict[str, float]]:
    return {bound.workload.name: bound.baseline_us for bound in bench.timed if bound.kind is WorkloadPurpose.SEARCH}


def open_bench(setup: Mapping[str, Any]) -> "AbstractContextManager[CpuBench | CudaBench]":
    """Return a context with the bench of the device class that the setup names."""
    if setup["device"] == "cuda":
        from evokernel.evaluate.judge.gpu_bench import open_gpu_bench

        ready = BenchSetup.from_message(setup)
        _compile_alone(ready)
        return open_gpu_bench(ready)
    from evokernel.evaluate.judge.cpu_bench import open_cpu_bench

    return open_cpu_bench(BenchSetup.from_message(setup))


def _compile_alone(setup: BenchSetup) -> None:
    """Let torch's compiler start no helpers, as many as cores, which could run beside a clock.

    It compiles a kernel or two for each shape. The trials of `max_autotune` are many, and have the helpers.
    """
    if not (setup.final and setup.settings.max_autotune):
        os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
        if (loaded := sys.modules.get("torch._inductor.config")) is not None:  # it has read that already
            setattr(loaded, "compile_threads", 1)  # noqa: B010 - a module to mypy


def opened(message: Mapping[str, Any]) -> "AbstractContextManager[CpuBench | CudaBench]":
    """Return the bench that the first message asks for. Raises `HarnessError` for any other message."""
    match message["op"]:
        case "start":
            return open_bench(message)
        case "check" | "time" | "hire" | "admit":
            raise HarnessError(f"{message['op']} before start")
    raise HarnessError(f"unknown question {message['op']!r}")


def prepare(setup: Mapping[str, Any]) -> Message:
    """Do what a judge of a winner on a GPU can do without it, on cores of compilers, and return its hidden shapes."""
    ready = BenchSetup.from_message(setup)
    pin_to(ready.cores.compilers)
    task = load_task(ready.task_spec).on(setup["device"])
    offered = task.workloads[setup["device"]]
    rng = np.random.default_rng(int.from_bytes(os.urandom(16), "little"))
    probes = probe_workloads(offered, rng)
    odd = compiled_workloads(task, probes, offered, rng, final=ready.final, numbers=ready.numbers)
    _compile_alone(ready)
    if setup["imports"] and any(isinstance(each, Compiled) for each in panel_functions(task).values()):
        importlib.import_module("torch._inductor.compile_fx")  # its first call would: a second or more
    return {
        "probes": [dict(each.dims) for each in (*probes, *odd)],
        "hidden_shapes": [dict(each.dims) for each in (*probes, *(offered.holdout if ready.final else ()), *odd)],
    }


def serve(connection: socket.socket) -> None:
    """Answer until the other end closes."""
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        _serve(connection)


def _serve(connection: socket.socket) -> None:
    asked = questions(connection)
    for setup, _ in asked:
        with contextlib.ExitStack() as stack:
            try:
                if setup["op"] == "prepare":
                    connection.sendall(pack(prepare(setup)))
                    continue
                judge = JudgeServer(stack.enter_context(opened(setup)))
                stack.callback(judge.close)
                hello = judge.hello()
            except Exception as error:  # noqa: BLE001 - the edge of the process: the engine must hear of any fault
                connection.sendall(pack(fault(error)))
                continue
            connection.sendall(pack(hello))
            for message, blobs in asked:
                try:
                    answer = judge.answer(message, blobs)
                except Exception as error:  # noqa: BLE001 - as above
                    answer = fault(error)
                connection.sendall(pack(answer))


def fault(error: Exception) -> Message:
    """Return the answer that reports an error."""
    if type(error).__name__ == "OutOfMemoryError":  # torch's, whose text speaks of torch's own settings
        text = f"the workloads of the task need more memory than the GPU has free; name smaller ones ({error})"
        return {"error": "HarnessError", "text": text[:_OUT_OF_MEMORY_CHARACTERS]}
    return {"error": type(error).__name__, "text": str(error) or repr(error)}


def questions(connection: socket.socket) -> Iterator[tuple[Message, list[bytes]]]:
    """Yield messages until the other end closes."""
    while True:
        try:
            question = receive(connection)
        except EOFError:
            return
        yield question
