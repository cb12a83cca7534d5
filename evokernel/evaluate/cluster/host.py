"""Host of a cluster: one device with an evaluator of its own, which builds and judges there as one machine does."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Protocol, Self

from evokernel.config.run import DEVICE_OF, ConstraintsConfig, EvaluationConfig
from evokernel.errors import HarnessError
from evokernel.evaluate.build.confined_compilers import local_language
from evokernel.evaluate.client.judge_setup import JoinedRun
from evokernel.evaluate.client.open_evaluator import open_evaluator
from evokernel.evaluate.cluster.fingerprint import Fingerprint, differences, fingerprint
from evokernel.evaluate.device.device_class import Machine, this_machine
from evokernel.languages.constrained import constrained
from evokernel.protocols import CheckEvaluator, Evaluator, takes_checks
from evokernel.records.evaluation import Evaluation, EvaluationRequest
from evokernel.records.hidden_check import HiddenCheck
from evokernel.tasks import task_path


class HostMismatch(HarnessError):
    """Verdicts of the host would not be comparable with those of the run; trying it again does not help."""


class HostOpening(Protocol):
    """Opens the evaluator of a host; it can be sent to another machine."""

    @property
    def joins(self) -> JoinedRun | None:
        """The run that the evaluator joins; None where it begins one."""

    def joining(self, run: JoinedRun) -> Self:
        """Return the opening of a host that joins a run."""

    def open(self) -> AbstractAsyncContextManager[tuple[Evaluator, JoinedRun]]:
        """Return a context with a ready evaluator, and what the other hosts of its run take over."""


@dataclass(frozen=True, slots=True)
class LocalOpening:
    """Opens the evaluator that judges on one machine, in the place where it is sent to."""

    task_spec: str
    """Argument of `evokernel.tasks.load_task`; a path is the same on every host."""
    language: str
    """Name of the language."""
    settings: EvaluationConfig
    """Settings of the judge, resolved for the device class."""
    constraints: ConstraintsConfig
    """Limits for every kernel."""
    threads: int
    """Threads that a candidate may use on a processor."""
    profiled: bool
    """Whether precise timings of GPU kernels come with a profile."""
    joins: JoinedRun | None = None
    """The run to join; None to begin one."""

    def joining(self, run: JoinedRun) -> Self:
        """Return the opening of a host that joins a run."""
        return replace(self, joins=run)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[tuple[Evaluator, JoinedRun]]:
        """Open the evaluator. Raises as `open_evaluator` does."""
        machine = this_machine()
        if not os.path.exists(task_path(self.task_spec)):
            raise HostMismatch(f"there is no task file {self.task_spec} on this host; put it where every host sees it")
        alone = {"gpus": 1, "hosts": "local", "devices": {}}  # here it is a machine like any other
        settings = self.settings.model_copy(update=alone)
        limits = machine.limits(DEVICE_OF[self.language])
        language = local_language(self.language, settings, threads=self.threads, device=limits)
        opening = open_evaluator(
            self.task_spec,
            constrained(language, self.constraints),
            settings=settings,
            threads=self.threads,
            machine=machine,
            deterministic=self.constraints.deterministic,
            profiled=self.profiled,
            joins=self.joins,
        )
        async with opening as evaluator:
            yield evaluator, evaluator.joined


@dataclass(frozen=True, slots=True)
class HostFacts:
    """Facts of a host, before anything is started there."""

    machine: Machine
    """The device it was given."""
    fingerprint: Fingerprint
    """Its versions and models."""
    node: str
    """Name of its node."""
    process: int
    """Process id of the host, there."""

    def __str__(self) -> str:
        gpu = self.machine.gpu
        return f"{gpu.name} {gpu.uuid}" if gpu else self.fingerprint["device"]


class Host:
    """The actor: opens an evaluator when it is first asked, and again after Ray has started it anew.

    Its judges end with it: they end when the socket to its process closes, and the kernel kills them with their parent.
    """

    def __init__(self) -> None:
        os.environ.pop("OMP_NUM_THREADS", None)  # Ray's, for its own tasks; baselines choose theirs by the config
        self._stack = AsyncExitStack()
        self._opened: tuple[Evaluator, JoinedRun] | None = None
        self._opening = asyncio.Lock()

    async def facts(self) -> HostFacts:
        """Return what can be said before an evaluator is opened."""
        machine = this_machine()
        return HostFacts(machine, fingerprint(machine), socket.gethostname(), os.getpid())

    async def open(self, opening: HostOpening, expected: Fingerprint) -> JoinedRun:
        """Open the evaluator unless it is open.

        Raises:
            HostMismatch: this host is not like the others.
            EvokernelError: as `open_evaluator` does.
        """
        _, run = await self._ready(opening, expected)
        return run

    async def _ready(self, opening: HostOpening, expected: Fingerprint) -> tuple[Evaluator, JoinedRun]:
        async with self._opening:
            if self._opened is None:
                wrong = differences(expected, fingerprint(this_machine()))
                if wrong:
                    raise HostMismatch(wrong)
                self._opened = await self._stack.enter_async_context(opening.open())
            return self._opened

    async def evaluate(self, request: EvaluationRequest, opening: HostOpening, expected: Fingerprint) -> Evaluation:
        """Return the verdict on a candidate. Raises as `open` and `Evaluator.evaluate` do."""
        evaluator, _ = await self._ready(opening, expected)
        return await evaluator.evaluate(request)

    async def admit(self, check: HiddenCheck, opening: HostOpening, expected: Fingerprint) -> str:
        """Return why a hidden check is not fit, or nothing. Raises as `open` and `CheckEvaluator.admit` do."""
        return await (await self._checking(opening, expected)).admit(check)

    async def recheck(
        self, request: EvaluationRequest, opening: HostOpening, expected: Fingerprint
    ) -> Evaluation | None:
        """Return the verdict of a request's checks, as `CheckEvaluator.recheck` does. Raises as `open` does, too."""
        return await (await self._checking(opening, expected)).recheck(request)

    async def _checking(self, opening: HostOpening, expected: Fingerprint) -> CheckEvaluator:
        evaluator, _ = await self._ready(opening, expected)
        if not takes_checks(evaluator):
            raise HarnessError("the evaluator of this host takes no further hidden checks")
        return evaluator

    async def close(self) -> None:
        """End every process that was started here."""
        self._opened = None
        await self._stack.aclose()
