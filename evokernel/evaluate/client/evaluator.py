"""The evaluator of this machine: compiles in threads, judges in a process for each device, each at its own pace."""

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from evokernel.config.run import DEVICE_OF, EvaluationConfig
from evokernel.errors import HarnessError, LanguageError, TaskError
from evokernel.evaluate.client.build_lock import BuildLock, NoBuildLock
from evokernel.evaluate.client.builds import Build, Builder, Shapes
from evokernel.evaluate.client.devices import DevicePool, DeviceSlot, JudgeHandle, StartJudge, shapes_of, start_judge
from evokernel.evaluate.client.duplicates import DuplicateArtifacts
from evokernel.evaluate.client.evaluations import MODES, entry, identify, unbuilt
from evokernel.evaluate.client.expert import ExpertAddition, ExpertKernel
from evokernel.evaluate.client.judge_process import JudgeLost
from evokernel.evaluate.device.cores import share_out
from evokernel.evaluate.device.nvml import GpuFacts, gpu_count, visible_gpus
from evokernel.evaluate.numerics.pooling import pool_finals
from evokernel.evaluate.wire import HELD_OUT, Message, PhaseVerdict
from evokernel.protocols import Language
from evokernel.records.build import BuildFailure
from evokernel.records.evaluation import Evaluation, EvaluationRequest, EvaluatorIdentity, Fidelity, Stage, Status
from evokernel.task import Task
from evokernel.tasks import load_task, task_path

logger = logging.getLogger(__name__)

_CORES = tuple(sorted(os.sched_getaffinity(0)))
"""Taken before any evaluator keeps its thread off some of them."""
_HALF_WIDTH = {Fidelity.QUICK: 0.005, Fidelity.PRECISE: 0.005, Fidelity.FINAL: 0.002}
_TRIES = 2  # for one candidate, when a judge is lost over it


class LocalEvaluator:
    """Judges candidates on this machine's processor or GPUs; see `evokernel.protocols.Evaluator`.

    Each GPU has a judge of its own, started when there is a candidate for it. The first judge admits the task and says
    who the evaluator is; it also draws the hidden shapes of the run, which all others take over, so that one build
    fits every judge. Those that measure a winner draw their own.

    Between `start` and `close` the calling thread keeps off the cores that the judges and the timed processes use,
    where other cores remain.

    Args:
        task_spec: what `evokernel.tasks.load_task` takes.
        language: how candidates are compiled.
        settings: how to judge, resolved for the device class.
        threads: threads a candidate may use on a processor.
        gpus: GPUs of one model; none for the one that CUDA programs use first.
        expert: a kernel to be one of the baselines.
        profiled: whether what limits a GPU kernel is named where it is timed precisely; somebody should read that.
        start: how a judge is started.
    """

    def __init__(
        self,
        task_spec: str,
        language: Language,
        *,
        settings: EvaluationConfig,
        threads: int,
        gpus: Sequence[GpuFacts] = (),
        expert: ExpertKernel | None = None,
        profiled: bool = False,
        start: StartJudge = start_judge,
    ) -> None:
        self._spec = str(task_path(task_spec))
        self._language = language
        self._settings = settings
        self._threads = threads
        self._device_class = device = DEVICE_OF[language.name]
        self._profiled = profiled and device == "cuda"
        self._gate = BuildLock() if device == "cpu" else NoBuildLock()
        used = [gpu.index for gpu in gpus or visible_gpus()[:1]] if device == "cuda" else []
        cores = share_out(_CORES, device=device, threads=threads, gpus=used or [0], machine=gpu_count() if used else 0)
        self._engine_cores = cores[0].engine
        self._seats = DevicePool(
            [DeviceSlot(start, own, gpu=gpu) for own, gpu in zip(cores, gpus or (None,), strict=True)]
        )
        self._builder = Builder(language, self._gate, cores[0].compilers)
        self._hiring = ExpertAddition(expert, self._gate, cores[0].compilers) if expert else None
        self._starting = asyncio.Lock()
        self._identity: EvaluatorIdentity | None = None
        self._task: Task | None = None
        self._clean: set[str] = set()
        self._hidden: Shapes = ()
        self._twins = DuplicateArtifacts(MODES[device])

    async def start(self) -> EvaluatorIdentity:
        """Start the first judge, admit the task, measure device and baselines. Idempotent.

        Raises:
            TaskError: the task cannot be loaded or is not fit to judge candidates.
            ConfigError: the expert is not right.
            HarnessError: the machinery failed.
        """
        async with self._starting:
            if self._identity is None:
                os.sched_setaffinity(0, self._engine_cores)
                async with self._seats.take() as seat:
                    task, hello = await self._open_first(seat)
                    self._task = task.on(self._device_class)
                    self._hidden = seat.hidden
                    if self._hiring is not None:
                        assert seat.judge is not None
                        hello |= await self._hiring.hire(seat.judge, self._task, hidden=self._hidden)
                self._identity = identify(
                    hello,
                    self._spec,
                    language=self._language,
                    settings=self._settings,
                    threads=self._threads,
                    device=self._device_class,
                    expert=self._hiring.expert.candidate.id if self._hiring else "",
                )
            return self._identity

    async def _open_first(self, seat: DeviceSlot) -> tuple[Task, Message]:
        """Return the task and what its first judge says of itself."""
        async with self._gate.alone():
            opening = asyncio.create_task(seat.open(self._setup(admit=True)))
            try:
                return await asyncio.gather(asyncio.to_thread(load_task, self._spec), opening)
            finally:
                opening.cancel()  # where the task cannot be loaded; nothing is left of what had begun
                await asyncio.wait([opening])

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

    async def close(self) -> None:
        """End every process this evaluator started and give the calling thread its cores back. Idempotent."""
        await self._builder.close()
        if self._hiring is not None:
            await self._hiring.close()
        self._identity = None
        await self._seats.close()
        os.sched_setaffinity(0, _CORES)

    async def _evaluate(self, request: EvaluationRequest, identity: EvaluatorIdentity) -> Evaluation:
        began = time.monotonic()
        if request.candidate.language != self._language.name:
            raise HarnessError(f"this evaluator judges {self._language.name}, not {request.candidate.language}")
        complaint = self._language.static_check(request.candidate.source)
        build, seconds = None, 0.0
        if complaint is not None:
            outcome = PhaseVerdict(Status.STATIC_REJECT, Stage.STATIC, complaint)
        else:
            build = await self._build(request, self._hidden)
            seconds = time.monotonic() - began
            outcome = unbuilt(build) or await self._judged(request, identity, build)
        spent = time.monotonic() - began
        evaluation = entry(request, identity, outcome=outcome, build=build, build_s=seconds, duration_s=spent)
        self._twins.remember(evaluation)
        return evaluation

    async def _build(self, request: EvaluationRequest, hidden: Shapes) -> Build:
        assert self._task is not None
        return await self._builder.build(request.candidate, self._task, hidden=hidden)

    # ------------------------------------------------------------------------------------------------ judging

    async def _judged(self, request: EvaluationRequest, identity: EvaluatorIdentity, build: Build) -> PhaseVerdict:
        if request.budget is Fidelity.FINAL:
            return await self._final(request, identity)
        return await self._seated(partial(self._search, request=request, identity=identity, build=build), used=[])

    async def _seated(
        self, work: Callable[[DeviceSlot], Awaitable[PhaseVerdict]], *, used: list[DeviceSlot], tries: int = _TRIES
    ) -> PhaseVerdict:
        """Do some work at a free seat, not one of those `used` if possible; again where a judge is lost over it."""
        async with self._seats.take(rather_not=used) as seat:
            used.append(seat)
            try:
                return await work(seat)
            except JudgeLost as error:
                if tries <= 1:
                    raise
                logger.warning("a judge was lost on %s, and its work begins again: %s", seat, error)
        return await self._seated(work, used=used, tries=tries - 1)

    async def _search(
        self, seat: DeviceSlot, request: EvaluationRequest, identity: EvaluatorIdentity, build: Build
    ) -> PhaseVerdict:
        try:
            if not seat.ready:
                async with self._gate.alone():
                    await seat.reopen(self._setup(identity, probes=self._hidden), device=identity.device)
            assert seat.judge is not None
            if seat.hidden != self._hidden:  # all judges of a run should have the same shapes
                build = await self._build(request, seat.hidden)
            return unbuilt(build) or await self._ask(seat.judge, request, build)
        except JudgeLost:
            await seat.close(kill=True)  # it may be alive, and broken
            raise

    async def _final(self, request: EvaluationRequest, identity: EvaluatorIdentity) -> PhaseVerdict:
        """Measure a winner in fresh processes, until one says no; on as many GPUs at a time as there are."""
        work = partial(self._final_at, request=request, identity=identity)
        first = partial(work, sanitize=True)  # once is enough: it takes seconds
        rounds = request.processes or self._settings.final_processes
        outcomes: list[PhaseVerdict] = []
        while len(outcomes) < rounds:
            used: list[DeviceSlot] = []
            count = min(len(self._seats), rounds - len(outcomes))
            tasks = [work if number or outcomes else first for number in range(count)]
            started = [asyncio.create_task(self._seated(task, used=used)) for task in tasks]
            found = await asyncio.gather(*started, return_exceptions=True)
            for each in found:
                if isinstance(each, PhaseVerdict) and each.status is not Status.OK:
                    return each
            outcomes += [task.result() for task in started]
        return pool_finals(outcomes)

    async def _final_at(
        self, seat: DeviceSlot, request: EvaluationRequest, identity: EvaluatorIdentity, *, sanitize: bool = False
    ) -> PhaseVerdict:
        if self._device_class == "cuda":
            await seat.close()  # its buffers take much of the device's memory; a new one starts when needed
        async with self._gate.alone():
            began = time.monotonic()
            judge, hello = await seat.fresh(self._setup(identity, final=True))
            started = {"start_s": time.monotonic() - began}
        try:
            build = await self._build(request, shapes_of(hello))
            if unbuilt(build) is not None:  # what it needs on shapes it has not seen is not told
                return PhaseVerdict(Status.HOLDOUT_FAILED, Stage.COMPILE, HELD_OUT)
            outcome = await self._ask(judge, request, build, sanitize=sanitize)
            return replace(outcome, metrics={**outcome.metrics, **started})
        finally:
            await judge.close()

    async def _ask(
        self, judge: JudgeHandle, request: EvaluationRequest, build: Build, *, sanitize: bool = False
    ) -> PhaseVerdict:
        assert not isinstance(build.built, BuildFailure)
        digest = build.built.hash
        blobs = [build.built.artifact]
        if isinstance(build.checked, bytes) and digest not in self._clean:
            blobs.append(build.checked)
        question = {"op": "check", "source": request.candidate.source, "sanitize": sanitize}
        checked = PhaseVerdict.from_message(await judge.ask(question, blobs))
        if checked.status is not None:
            return checked
        sanitized = checked.metrics.get("sanitized", 0.0)
        if isinstance(build.checked, bytes):
            if sanitized:
                self._clean.add(digest)  # the same code need not pass the sanitizers again for a larger budget
            sanitized = float(digest in self._clean)
        metrics = {**checked.metrics, "sanitized": sanitized}
        seen = checked.artifact or digest  # the build's own word would let one candidate pass for another
        twin = self._twins.outcome(seen, request.budget, own=request.candidate.id, checked=checked, metrics=metrics)
        if twin is not None:
            return twin
        async with self._gate.alone():
            timed = PhaseVerdict.from_message(await judge.ask(self._timing(request)))
        return replace(
            timed,
            metrics={**checked.metrics, **timed.metrics, "sanitized": sanitized},
            mode=timed.mode or checked.mode,
            artifact=checked.artifact,
            remarks="\n".join(filter(None, (timed.remarks, checked.remarks))),
        )

    # ------------------------------------------------------------------------------------------------ messages

    def _setup(
        self,
        identity: EvaluatorIdentity | None = None,
        *,
        admit: bool = False,
        final: bool = False,
        probes: Shapes = (),
    ) -> dict[str, Any]:
        """Return what a judge is started with.

        With an identity it does not measure the device: the first judge's sheet holds for the whole run. `probes` are
        hidden shapes to take over instead of drawing some; none where nothing is compiled for shapes.
        """
        setup: dict[str, Any] = {
            "task": self._spec,
            "device": self._device_class,
            "threads": self._threads,
            "settings": self._settings.model_dump(mode="json"),
            "admit": admit,
            "final": final,
        }
        if identity is not None:
            setup["sheet"] = dict(identity.device_sheet)
            # which baseline a search is timed against is chosen once
            setup["baseline_us"] = {name: dict(times) for name, times in identity.baseline_us.items()}
            setup["expert"] = self._hiring.file if self._hiring else ""
        if probes:
            setup["probes"] = [dict(dims) for dims in probes]
        return setup

    def _timing(self, request: EvaluationRequest) -> dict[str, Any]:
        clock_ms = {
            Fidelity.QUICK: self._settings.quick_ms,
            Fidelity.PRECISE: self._settings.precise_ms,
            Fidelity.FINAL: self._settings.final_ms / (request.processes or self._settings.final_processes),
        }[request.budget]
        return {
            "op": "time",
            "budget": request.budget,
            "budget_s": clock_ms / 1e3,
            "confirm_s": self._settings.precise_ms / 1e3,
            "half_width": _HALF_WIDTH[request.budget],
            "profile": self._profiled and request.budget is Fidelity.PRECISE,
            "incumbent": {} if request.budget is Fidelity.FINAL else dict(request.incumbent),
        }
