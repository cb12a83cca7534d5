"""Evaluator of this machine: compiles in threads, and judges in one process for each device."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

from evokernel.errors import EvokernelError, HarnessError, LanguageError, TaskError
from evokernel.evaluate.client.builds import Build, Builder, Shapes
from evokernel.evaluate.client.devices import DevicePool, DeviceSlot, SearchJudge, shapes_of
from evokernel.evaluate.client.duplicate_artifacts import DuplicateArtifacts
from evokernel.evaluate.client.evaluations import entry, unbuilt
from evokernel.evaluate.client.final_judges import FinalJudges
from evokernel.evaluate.client.judge_process import JudgeClient, JudgeLost
from evokernel.evaluate.client.judge_setup import JoinedRun, JudgeSetup
from evokernel.evaluate.numerics.pooling import further_dtype, pool_finals
from evokernel.evaluate.wire import HELD_OUT, PhaseVerdict
from evokernel.protocols import Language
from evokernel.records.build import BuildFailure
from evokernel.records.evaluation import (
    NONDETERMINISTIC,
    Evaluation,
    EvaluationRequest,
    EvaluatorIdentity,
    Fidelity,
    Stage,
    Status,
)
from evokernel.records.hidden_check import HiddenCheck
from evokernel.task import Task

logger = logging.getLogger(__name__)

_HALF_WIDTH = {Fidelity.QUICK: 0.005, Fidelity.PRECISE: 0.005, Fidelity.FINAL: 0.002}
_ONLY_EQUAL_BITS = "two calls on equal inputs gave different values (constraint: deterministic)"
_TRIES = 2  # for one candidate, where a judge is lost


class LocalEvaluator:
    """Judges candidates on this machine's processor or GPUs; see `evokernel.protocols.Evaluator`.

    `open_evaluator` makes one, and closes its parts.

    Args:
        identity: the evaluator, as its first judge describes it.
        task: for the device class.
        expert: the file of the kernel that is one of the baselines; empty where there is none.
    """

    def __init__(
        self,
        identity: EvaluatorIdentity,
        task: Task,
        *,
        language: Language,
        setup: JudgeSetup,
        expert: str,
        hidden: Shapes,
        slots: DevicePool,
        builder: Builder,
    ) -> None:
        self.identity = identity
        self._task = task
        self._language = language
        self._setup = setup
        self._settings = setup.settings
        self._expert = expert
        self._hidden = hidden
        self._slots = slots
        self._builder = builder
        self._finals = FinalJudges(ahead=setup.device_class == "cuda")
        self._lock = builder.lock
        self._clean: set[str] = set()
        self._duplicates = DuplicateArtifacts(identity.mode)

    @property
    def joined(self) -> JoinedRun:
        """The properties that an evaluator of the same run on another machine takes over."""
        return JoinedRun(self.identity, self._setup.distributions, self._hidden)

    async def close(self) -> None:
        """End the judges of winners that are left."""
        await self._finals.close()

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        """Return the verdict on one candidate. Raises `HarnessError` if the machinery failed twice."""
        try:
            return await self._evaluate(request)
        except (OSError, LanguageError, TaskError) as error:  # all of them worked at the start, so the fault is ours
            raise HarnessError(f"{type(error).__name__}: {error}") from error

    async def _evaluate(self, request: EvaluationRequest) -> Evaluation:
        evaluation = await self._entered(request, self._judged)
        if evaluation is None:
            raise HarnessError(f"the judge came to no verdict on {request.candidate.id}")
        self._duplicates.remember(evaluation)
        return evaluation

    async def _entered(
        self, request: EvaluationRequest, work: Callable[[EvaluationRequest, Build], Awaitable[PhaseVerdict]]
    ) -> Evaluation | None:
        """Build a candidate, do some work with it and return its evaluation, or None where that comes to no verdict."""
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
            outcome = unbuilt(build) or await work(request, build)
        if outcome.status is None:
            return None
        spent = time.monotonic() - began
        return entry(request, self.identity, outcome=outcome, build=build, build_s=seconds, duration_s=spent)

    async def admit(self, check: HiddenCheck) -> str:
        """Return why a hidden check is not fit for the task, or nothing. Raises `HarnessError`."""

        async def asked(slot: DeviceSlot) -> PhaseVerdict:
            judge = slot.judge or await self._reopened(slot)
            answer = await judge.handle.ask({"op": "admit", "check": check.as_message()})
            return PhaseVerdict(None, Stage.STATIC, answer["refusal"])

        return (await self._on_slot(asked, used=[])).feedback

    async def recheck(self, request: EvaluationRequest) -> Evaluation | None:
        """Return the verdict on a candidate that fails a check of the request, else None. Raises `HarnessError`."""

        async def judged(request: EvaluationRequest, build: Build) -> PhaseVerdict:
            return await self._on_slot(partial(self._search, request=request, build=build, only_added=True), used=[])

        try:
            return await self._entered(request, judged)
        except (OSError, LanguageError, TaskError) as error:
            raise HarnessError(f"{type(error).__name__}: {error}") from error

    async def _build(self, request: EvaluationRequest, hidden: Shapes, *, dtype: str = "") -> Build:
        task = self._task.with_floats(dtype) if dtype else self._task
        offered, checks = task.workloads[self._setup.device_class], () if dtype else request.checks
        added = [check.workload(offered).dims for check in checks if hidden]  # where kernels compile for shapes
        return await self._builder.build(request.candidate, task, hidden=(*hidden, *added))

    # ------------------------------------------------------------------------------------------------ judging

    async def _judged(self, request: EvaluationRequest, build: Build) -> PhaseVerdict:
        if request.budget is Fidelity.FINAL:
            return await self._final(request)
        return await self._on_slot(partial(self._search, request=request, build=build), used=[])

    async def _on_slot(
        self, work: Callable[[DeviceSlot], Awaitable[PhaseVerdict]], *, used: list[DeviceSlot], tries: int = _TRIES
    ) -> PhaseVerdict:
        """Do some work on a free slot, preferably not one of `used`; repeat it where a judge is lost."""
        async with self._slots.take(avoid=used, prefer=self._finals.slots) as slot:
            used.append(slot)
            try:
                return await work(slot)
            except JudgeLost as error:
                elsewhere = len(self._slots) > 1 and all(each is slot for each in used)  # it was not tried there yet
                if tries <= 1 and not (elsewhere and tries > 1 - _TRIES):
                    raise
                logger.warning("a judge was lost on %s, and its work begins again: %s", slot, error)
        return await self._on_slot(work, used=used, tries=tries - 1)

    async def _search(
        self, slot: DeviceSlot, request: EvaluationRequest, build: Build, *, only_added: bool = False
    ) -> PhaseVerdict:
        try:
            judge = slot.judge or await self._reopened(slot)
            if judge.hidden != self._hidden:  # all judges of a run should have the same shapes
                build = await self._build(request, judge.hidden)
            if unbuilt(build) is None and only_added:
                assert not isinstance(build.built, BuildFailure)
                question = {**self._check(request), "only_added": True}
                return PhaseVerdict.from_message(await judge.handle.ask(question, [build.built.artifact]))
            return unbuilt(build) or await self._ask(judge.handle, request, build)
        except JudgeLost:
            await slot.close(kill=True)  # it may be alive and broken
            raise

    async def _reopened(self, slot: DeviceSlot) -> SearchJudge:
        await self._finals.release()
        async with self._lock.alone():
            setup = self._setup.joining(self.identity, expert=self._expert, probes=self._hidden)
            return await slot.reopen(setup, device=self.identity.device)

    async def _final(self, request: EvaluationRequest) -> PhaseVerdict:
        """Measure a winner in fresh processes until one rejects it, on as many GPUs at a time as there are."""
        try:
            outcome = await self._pooled(request)
        finally:
            await self._finals.drop_next()
        return await self._at_further_dtypes(request, outcome) if outcome.status is Status.OK else outcome

    async def _pooled(self, request: EvaluationRequest) -> PhaseVerdict:
        """Return the joint verdict of the processes, or that of the first that rejects the winner."""
        rounds = request.processes or self._settings.final_processes
        outcomes: list[PhaseVerdict] = []
        while len(outcomes) < rounds:
            used: list[DeviceSlot] = []
            count = min(len(self._slots), rounds - len(outcomes))
            left = rounds - len(outcomes) - count
            started = []
            for number in range(count):
                first = not number and not outcomes  # some checks once: they take a while; a seed needs none
                work = partial(
                    self._final_at,
                    request=request,
                    thoroughly=first and not request.processes,
                    another=number < left,
                    keep=request.keep_last and not left and number == count - 1,
                )
                started.append(asyncio.create_task(self._on_slot(work, used=used)))
            found = await asyncio.gather(*started, return_exceptions=True)
            for each in found:
                if isinstance(each, PhaseVerdict) and each.status is not Status.OK:
                    return each
            outcomes += [task.result() for task in started]
            if request.after_process is not None and len(outcomes) < rounds:
                request.after_process(len(outcomes), rounds)
        return pool_finals(outcomes)

    async def _at_further_dtypes(self, request: EvaluationRequest, outcome: PhaseVerdict) -> PhaseVerdict:
        """Try a winner at the task's further dtypes, each in one process; what comes of it is reported, and no more."""
        for dtype in self._task.workloads[self._setup.device_class].further_dtypes:
            try:
                work = partial(self._final_at, request=request, dtype=dtype)
                found = further_dtype(dtype, await self._on_slot(work, used=[]))
            except (EvokernelError, OSError) as error:  # a baseline may not take that dtype
                found = PhaseVerdict(None, Stage.FINAL, remarks=f"{dtype}: not measured: {error}")
            remarks = "\n".join(filter(None, (outcome.remarks, found.remarks)))
            outcome = replace(outcome, metrics={**outcome.metrics, **found.metrics}, remarks=remarks)
        return outcome

    async def _final_at(
        self,
        slot: DeviceSlot,
        request: EvaluationRequest,
        *,
        thoroughly: bool = False,
        another: bool = False,
        keep: bool = False,
        dtype: str = "",
    ) -> PhaseVerdict:
        """Measure in one process: a fresh one, or the one that was kept for a request of one process.

        Where `thoroughly`, sanitizers run, and there are shapes that the numbers in the source single out. With
        `another` the next one on this device is made ready, and with `keep` this one stays open.
        """
        if self._setup.device_class == "cuda":
            await slot.close()  # its buffers take much of the device's memory; a new one starts when needed
        expert = "" if dtype else self._expert  # a user's kernel need not take it
        following = self._setup.joining(self.identity, expert=expert, final=True, dtype=dtype)
        numbers_of = request.candidate.source if thoroughly else ""
        setup = self._setup.joining(self.identity, expert=expert, final=True, numbers_of=numbers_of, dtype=dtype)
        builds = partial(self._build, request, dtype=dtype)
        async with self._lock.alone():
            began = time.monotonic()
            kept = self._finals.take_kept(slot) if request.processes == 1 and not dtype else None
            judge, hello = opened = kept or await self._finals.open(
                slot, setup, builds=builds, another=following if another else None
            )
            started = {"start_s": time.monotonic() - began}
        outcome = None
        try:
            build = await self._build(request, shapes_of(hello), dtype=dtype)
            if unbuilt(build) is not None:  # feedback must not reveal hidden shapes
                return PhaseVerdict(Status.HOLDOUT_FAILED, Stage.COMPILE, HELD_OUT)
            asked = replace(request, checks=()) if dtype else request  # a check is admitted for the task's own dtype
            settled = partial(self._finals.settled, slot)
            outcome = await self._ask(judge, asked, build, sanitize=thoroughly, settled=settled)
            return replace(outcome, metrics={**outcome.metrics, **started})
        finally:
            if keep and outcome is not None and outcome.status is Status.OK:
                await self._finals.keep(slot, opened)
            else:
                await judge.close()

    async def _ask(
        self,
        judge: JudgeClient,
        request: EvaluationRequest,
        build: Build,
        *,
        sanitize: bool = False,
        settled: Callable[[], Awaitable[None]] | None = None,
    ) -> PhaseVerdict:
        """Let a judge check a build, and time it once other work of ours has `settled`."""
        assert not isinstance(build.built, BuildFailure)
        digest = build.built.hash
        blobs = [build.built.artifact]
        own = request.candidate.id  # a source of the same code may be another program under the sanitizers
        if isinstance(build.checked, bytes) and own not in self._clean:
            blobs.append(build.checked)
        checked = PhaseVerdict.from_message(
            await judge.ask({**self._check(request, sanitize=sanitize), "numbers": build.built.numbers}, blobs)
        )
        if checked.status is not None:
            return checked
        if self._setup.deterministic and checked.metrics.get(NONDETERMINISTIC):
            return replace(checked, status=Status.NONDETERMINISTIC, feedback=_ONLY_EQUAL_BITS)
        sanitized = checked.metrics.get("sanitized", 0.0)
        if isinstance(build.checked, bytes):
            if sanitized:
                self._clean.add(own)  # it need not pass the sanitizers again for a larger budget
            sanitized = float(own in self._clean)
        metrics = {**checked.metrics, "sanitized": sanitized}
        seen = checked.artifact or digest  # a hash claimed by the build could imitate another candidate's
        duplicate = self._duplicates.outcome(seen, request.budget, own=own, checked=checked, metrics=metrics)
        if duplicate is not None:
            return duplicate
        if settled is not None:
            await settled()
        async with self._lock.alone():
            timed = PhaseVerdict.from_message(await judge.ask(self._timing(request)))
        return replace(
            timed,
            metrics={**checked.metrics, **timed.metrics, "sanitized": sanitized},
            mode=timed.mode or checked.mode,
            artifact=checked.artifact,
            remarks="\n".join(filter(None, (timed.remarks, checked.remarks))),
        )

    def _check(self, request: EvaluationRequest, *, sanitize: bool = False) -> dict[str, Any]:
        added = [check.as_message() for check in request.checks]
        return {"op": "check", "source": request.candidate.source, "sanitize": sanitize, "added": added}

    def _timing(self, request: EvaluationRequest) -> dict[str, Any]:
        clock_ms = {
            Fidelity.QUICK: self._settings.quick_ms,
            Fidelity.PRECISE: self._settings.precise_ms,
            Fidelity.FINAL: self._settings.final_ms / self._settings.final_processes,
        }[request.budget]
        return {
            "op": "time",
            "budget": request.budget,
            "budget_s": clock_ms / 1e3,
            "confirm_s": self._settings.precise_ms / 1e3,
            "half_width": _HALF_WIDTH[request.budget],
            "profile": self._setup.profiled and request.budget is Fidelity.PRECISE,
            "incumbent": dict(request.incumbent) if request.budget is Fidelity.QUICK else {},
        }
