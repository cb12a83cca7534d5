"""The evaluator of this machine: compiles in threads, judges in a process of its own, times when nothing compiles."""

import asyncio
import hashlib
import importlib.metadata
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from evokernel.config import EvaluationConfig
from evokernel.errors import HarnessError, LanguageError, TaskError
from evokernel.evaluate import EVALUATOR_VERSION
from evokernel.evaluate.builds import Build, Builder, Shapes
from evokernel.evaluate.client import JudgeClient, JudgeLost
from evokernel.evaluate.cores import share_out
from evokernel.evaluate.final import pool_finals
from evokernel.evaluate.gate import Gate, OpenGate
from evokernel.evaluate.wire import HELD_OUT, Outcome
from evokernel.evaluation import Budget, Evaluation, Mode, Speedup, Stage, Status
from evokernel.protocols import BuildFailure, Built, EvaluationRequest, EvaluatorIdentity, Language
from evokernel.task import Task
from evokernel.tasks import load_task, task_hash, task_path

_ANSWER_LIMIT_S = 900.0
_CORES = tuple(sorted(os.sched_getaffinity(0)))
"""Taken before any evaluator keeps its thread off some of them."""
_HALF_WIDTH = {Budget.QUICK: 0.005, Budget.PRECISE: 0.005, Budget.FINAL: 0.002}


class LocalEvaluator:
    """Judges candidates on this machine's processor or GPU; see `evokernel.protocols.Evaluator`.

    Between `start` and `close` the calling thread keeps off the cores that the judge and the timed processes use,
    where other cores remain.

    Args:
        task_spec: what `evokernel.tasks.load_task` takes.
        language: how candidates are compiled.
        settings: how to judge, resolved for the device class.
        threads: threads a candidate may use on a processor.
        device: the device class, "cpu" or "cuda".
    """

    def __init__(
        self, task_spec: str, language: Language, *, settings: EvaluationConfig, threads: int, device: str = "cpu"
    ) -> None:
        self._spec = str(task_path(task_spec))
        self._language = language
        self._settings = settings
        self._threads = threads
        self._device_class = device
        self._cores = share_out(_CORES, device=device, threads=threads)
        self._gate = Gate() if device == "cpu" else OpenGate()
        self._builder = Builder(language, self._gate, self._cores.compilers)
        self._starting = asyncio.Lock()
        self._device = asyncio.Lock()
        self._judge: JudgeClient | None = None
        self._identity: EvaluatorIdentity | None = None
        self._task: Task | None = None
        self._clean: set[str] = set()
        self._hidden: Shapes = ()
        self._twins: dict[tuple[str, Budget], Evaluation] = {}

    async def start(self) -> EvaluatorIdentity:
        """Start the judge, admit the task, measure device and baselines. Idempotent.

        Raises:
            TaskError: the task cannot be loaded or is not fit to judge candidates.
            HarnessError: the machinery failed.
        """
        async with self._starting:
            if self._identity is None:
                os.sched_setaffinity(0, self._cores.engine)
                async with self._device, self._gate.alone():
                    loading = asyncio.to_thread(load_task, self._spec)
                    starting = self._start_judge({"admit": True, "final": False})
                    task, (self._judge, hello) = await asyncio.gather(loading, starting)
                self._task = task.on(self._device_class)
                self._hidden = _shapes(hello)
                self._identity = self._identify(hello)
            return self._identity

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        """Return the verdict on one candidate.

        Raises:
            HarnessError: the machinery failed twice.
        """
        identity = await self.start()
        try:
            return await self._evaluate(request, identity)
        except (OSError, LanguageError, TaskError) as error:  # all was well at the start: this is a fault of ours
            raise HarnessError(f"{type(error).__name__}: {error}") from error

    async def _evaluate(self, request: EvaluationRequest, identity: EvaluatorIdentity) -> Evaluation:
        began = time.monotonic()
        if request.candidate.language != self._language.name:
            raise HarnessError(f"this evaluator judges {self._language.name}, not {request.candidate.language}")
        assert self._task is not None
        complaint = self._language.static_check(request.candidate.source)
        build, seconds = None, 0.0
        if complaint is not None:
            outcome = Outcome(Status.STATIC_REJECT, Stage.STATIC, complaint)
        else:
            build = await self._build(request, self._hidden)
            seconds = time.monotonic() - began
            outcome = _unbuilt(build) or await self._judged(request, build)
        evaluation = self._evaluation(request, identity, outcome, build)
        metrics = {**evaluation.metrics, "build_s": seconds}
        evaluation = replace(evaluation, metrics=metrics, duration_s=time.monotonic() - began)
        self._remember(evaluation)
        return evaluation

    async def _build(self, request: EvaluationRequest, hidden: Shapes) -> Build:
        assert self._task is not None
        return await self._builder.build(request.candidate, self._task, hidden=hidden)

    def _twin(self, request: EvaluationRequest, built: Built) -> Evaluation | None:
        """Return the measurement of another candidate that compiled to the same, if there is one."""
        twin = self._twins.get((built.hash, request.budget))
        return twin if twin is not None and twin.candidate_id != request.candidate.id else None

    def _remember(self, evaluation: Evaluation) -> None:
        if evaluation.ok and evaluation.key.budget is not Budget.FINAL:
            self._twins.setdefault((evaluation.artifact_hash, evaluation.key.budget), evaluation)

    async def close(self) -> None:
        """End every process this evaluator started and give the calling thread its cores back. Idempotent."""
        await self._builder.close()
        judge, self._judge, self._identity = self._judge, None, None
        if judge is not None:
            await judge.close()
        os.sched_setaffinity(0, _CORES)

    # ------------------------------------------------------------------------------------------------ judging

    async def _judged(self, request: EvaluationRequest, build: Build) -> Outcome:
        """Let a judge work on it; a judge that fails is replaced once."""
        work = self._final if request.budget is Budget.FINAL else self._search
        async with self._device:
            try:
                return await work(request, build)
            except JudgeLost:
                if self._judge is not None and request.budget is not Budget.FINAL:  # it may be alive, and broken
                    await self._judge.close(kill=True)
                return await work(request, build)

    async def _search(self, request: EvaluationRequest, build: Build) -> Outcome:
        if self._judge is None or not self._judge.alive:
            if self._judge is not None:
                await self._judge.close(kill=True)
            assert self._identity is not None
            async with self._gate.alone():
                # Not admitted anew, and the device not measured anew: the identity holds for the whole run.
                setup = {"admit": False, "final": False, "sheet": dict(self._identity.device_sheet)}
                self._judge, hello = await self._start_judge(setup)
            self._hidden = _shapes(hello)
        # It may be another judge than when this was built first, and each draws hidden shapes of its own.
        build = await self._build(request, self._hidden)
        return _unbuilt(build) or await self._ask(self._judge, request, build)

    async def _final(self, request: EvaluationRequest, build: Build) -> Outcome:
        assert self._identity is not None
        setup = {"admit": False, "final": True, "sheet": dict(self._identity.device_sheet)}
        if self._device_class == "cuda" and self._judge is not None:
            await self._judge.close()  # its buffers take much of the device's memory; a new one starts when needed
        outcomes = []
        for _ in range(request.processes or self._settings.final_processes):
            async with self._gate.alone():
                judge, hello = await self._start_judge(setup)
            try:
                build = await self._build(request, _shapes(hello))
                if _unbuilt(build) is not None:  # what it needs on shapes it has not seen is not told
                    return Outcome(Status.HOLDOUT_FAILED, Stage.COMPILE, HELD_OUT)
                outcome = await self._ask(judge, request, build)
            finally:
                await judge.close()
            if outcome.status is not Status.OK:
                return outcome
            outcomes.append(outcome)
        return pool_finals(outcomes)

    async def _ask(self, judge: JudgeClient, request: EvaluationRequest, build: Build) -> Outcome:
        assert not isinstance(build.built, BuildFailure)
        digest = build.built.hash
        blobs = [build.built.artifact]
        if isinstance(build.checked, bytes) and digest not in self._clean:
            blobs.append(build.checked)
        checked = Outcome.from_message(await judge.ask({"op": "check", "source": request.candidate.source}, blobs))
        if checked.status is not None:
            return checked
        if checked.metrics.get("sanitized"):
            self._clean.add(digest)  # the same code need not pass the sanitizers again for a larger budget
        sanitized = {"sanitized": float(digest in self._clean)}
        # Its own host code was checked, and may differ; what it launches is the same and need not be timed again.
        twin = self._twin(request, build.built)
        if twin is not None:
            text = f"compiled to the same as {twin.candidate_id}, whose times these are\n{twin.feedback}"
            return Outcome(
                *(Status.OK, twin.stage, text),
                timings=twin.timings,
                stopped_early=twin.stopped_early,
                metrics={**checked.metrics, **sanitized, "twin": 1.0},
            )
        async with self._gate.alone():
            timed = Outcome.from_message(await judge.ask(self._timing(request)))
        return replace(timed, metrics={**checked.metrics, **timed.metrics, **sanitized})

    def _timing(self, request: EvaluationRequest) -> dict[str, Any]:
        clock_ms = {
            Budget.QUICK: self._settings.quick_ms,
            Budget.PRECISE: self._settings.precise_ms,
            Budget.FINAL: self._settings.final_ms / (request.processes or self._settings.final_processes),
        }[request.budget]
        return {
            "op": "time",
            "budget": request.budget,
            "budget_s": clock_ms / 1e3,
            "confirm_s": self._settings.precise_ms / 1e3,
            "half_width": _HALF_WIDTH[request.budget],
            "incumbent": {} if request.budget is Budget.FINAL else dict(request.incumbent),
        }

    async def _start_judge(self, setup: Mapping[str, Any]) -> tuple[JudgeClient, dict[str, Any]]:
        judge = JudgeClient(_ANSWER_LIMIT_S)
        try:
            hello = await judge.start(
                {
                    "task": self._spec,
                    "device": self._device_class,
                    "threads": self._threads,
                    "settings": self._settings.model_dump(mode="json"),
                    "cores": asdict(self._cores),
                    **setup,
                }
            )
        except BaseException:
            await judge.close(kill=True)
            raise
        return judge, hello

    # ------------------------------------------------------------------------------------------------ records

    def _identify(self, hello: Mapping[str, Any]) -> EvaluatorIdentity:
        settings = self._settings.model_dump_json(exclude={"sandbox", "compile_timeout_s"})
        text = f"{task_hash(self._spec)} {self._threads} {settings}"
        return EvaluatorIdentity(
            task_hash=hashlib.sha256(text.encode()).hexdigest()[:16],
            device=hello["device"],
            environment=f"{self._language.environment}; torch {importlib.metadata.version('torch')}",
            evaluator_version=EVALUATOR_VERSION,
            mode=Mode.WORKER,
            device_sheet=hello["sheet"],
            sandbox=hello["sandbox"],
            baseline_us=hello["baseline_us"],
        )

    def _evaluation(
        self, request: EvaluationRequest, identity: EvaluatorIdentity, outcome: Outcome, build: Build | None
    ) -> Evaluation:
        assert outcome.status is not None
        built = build.built if build is not None and not isinstance(build.built, BuildFailure) else None
        ok = outcome.status is Status.OK
        return Evaluation(
            key=identity.key(request.program_hash, request.budget),
            candidate_id=request.candidate.id,
            status=outcome.status,
            stage=outcome.stage,
            timings=outcome.timings if ok else (),
            panel={name: Speedup(*values) for name, values in outcome.panel.items()},
            descriptor=built.descriptor if built else {},
            metrics={**(built.metrics if built else {}), **outcome.metrics},
            feedback=outcome.feedback,
            artifact_hash=built.hash if built else "",
            stopped_early=outcome.stopped_early,
            sandbox=identity.sandbox,
        )


def _shapes(hello: Mapping[str, Any]) -> Shapes:
    """Return the shapes a judge will call kernels with beside those of the search workloads."""
    return tuple(dict(dims) for dims in hello["hidden_shapes"])


def _unbuilt(build: Build) -> Outcome | None:
    """Return the verdict where there is nothing to run, or what runs does not compile under the sanitizers."""
    if isinstance(build.built, BuildFailure):
        status = Status.HOST_EXCEPTION if build.built.raised else Status.COMPILE_ERROR
        status = Status.COMPILE_TIMEOUT if build.built.timed_out else status
        return Outcome(status, Stage.COMPILE, build.built.message)
    if isinstance(build.checked, BuildFailure) and not build.checked.timed_out:
        text = f"it compiles, but not with the address and undefined-behaviour sanitizers:\n{build.checked.message}"
        return Outcome(Status.COMPILE_ERROR, Stage.COMPILE, text)
    return None
