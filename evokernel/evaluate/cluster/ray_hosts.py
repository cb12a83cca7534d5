"""Hosts placed by Ray, behind the protocol of evaluators. No exception or object of Ray passes this module.

A lease on a candidate is one call of one host. Ray repeats no call (`max_task_retries=0`), so a candidate whose host
was lost is given to another here. A verdict reaches only the call that asked for it: one that comes late, from a host
that was thought lost, finds nobody and is dropped.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

from evokernel.config.run import EvaluationConfig
from evokernel.errors import EvokernelError, HarnessError
from evokernel.evaluate.client.judge_setup import JoinedRun
from evokernel.evaluate.cluster.connection import connect, ended_by_ctrl_c
from evokernel.evaluate.cluster.fingerprint import ON_EVERY_MACHINE, Fingerprint, fingerprint
from evokernel.evaluate.cluster.host import Host, HostFacts, HostMismatch, HostOpening
from evokernel.evaluate.device.cores import MOST_PER_GPU
from evokernel.evaluate.device.device_class import Machine, this_machine
from evokernel.protocols import Evaluator
from evokernel.records.evaluation import Evaluation, EvaluationRequest, EvaluatorIdentity
from evokernel.records.hidden_check import HiddenCheck
from evokernel.records.host_activity import HostActivity, HostState

logger = logging.getLogger(__name__)

CPU_HOSTS = "evokernel"
"""The resource that a node declares one of for each processor that may judge: two hosts must not share one."""
_ON_A_PROCESSOR = 4
"""Candidates at once of a host without a GPU: one at its judge, others at the compilers."""
_CALLS_BESIDE = 8  # for facts, opening and closing, however many candidates a host has
_ELSEWHERE = 2  # times that a candidate is given to another host
_SILENCE_S = 30.0
_AGAIN_S = 1.0
_CLOSING_S = 15.0
_MINUTE_S = 60.0


class HostLost(HarnessError):
    """The host, its node or the way to it was lost during a call."""


class RayHost:
    """The engine's handle on one host; Ray starts its actor where there is room, and again when it dies."""

    def __init__(self, ray: Any, device: str, *, most: int) -> None:
        self.load = 0
        """Candidates it has now."""
        self.most = most
        """Candidates that it may have at once."""
        self.ready = False
        """Whether its evaluator is open, as far as is known."""
        self.left_out = False
        """Whether the search goes on without it."""
        self._facts: HostFacts | None = None
        self._verdicts = 0
        self._recent: deque[float] = deque()  # when verdicts came, in s
        self._failures: tuple[int, str, float | None] = 0, "", None  # how many, the newest, and when
        self._lost = False
        self._starts = 0  # how often it was opened
        self._ray = ray
        place = (
            {"resources": {CPU_HOSTS: 1}} if device.upper() == "CPU" else {"num_gpus": 1, "accelerator_type": device}
        )
        options = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": 0, "max_concurrency": most + _CALLS_BESIDE}
        self._class = ray.remote(Host).options(**options, **place)
        self._actor = self._class.remote()

    async def ask(self, method: str, *arguments: Any) -> Any:
        """Return the answer to one call; until there is room for the host in the cluster, it waits.

        Raises:
            HostLost: nobody can say whether it was done.
            EvokernelError: what the host raised.
        """
        from ray.exceptions import ActorDiedError, RayError, RayTaskError

        try:
            return await self.call(method, *arguments)
        except RayTaskError as error:
            cause = error.cause
            if isinstance(cause, EvokernelError):
                raise cause from None
            raise HarnessError(f"a host failed: {cause!r}") from None
        except ActorDiedError as error:  # not to be started again by Ray
            self.kill()
            self._actor = self._class.remote()
            raise HostLost(_first_line(error)) from None
        except RayError as error:
            raise HostLost(_first_line(error)) from None

    async def open(self, opening: HostOpening, expected: Fingerprint) -> JoinedRun:
        """Open its evaluator, and return what the other hosts take over. Raises as `ask` does."""
        self._facts = await self.ask("facts")
        run: JoinedRun = await self.ask("open", opening, expected)
        self.ready, self._lost = True, False
        self._starts += 1
        return run

    async def judge(
        self, method: str, asked: EvaluationRequest | HiddenCheck, opening: HostOpening, expected: Fingerprint
    ) -> Any:
        """Return what its judge answers on a candidate or a check. Raises as `ask` does, and notes every failure."""
        start = self._starts
        try:
            found = await self.ask(method, asked, opening, expected)
        except (HostLost, HostMismatch) as error:  # Ray may have started it anew on another kind of node
            if start != self._starts or not self.ready:  # known already, and perhaps it is back
                raise
            logger.warning("%s was lost, and its candidates go to others: %s", self, error)
            self._note_failure(error)
            self.ready, self._lost = False, True  # until it has opened again
            raise
        except EvokernelError as error:
            self._note_failure(error)
            raise
        if method == "evaluate":
            self._verdicts += 1
            self._recent.append(time.monotonic())
        return found

    def leave_out(self, reason: Exception) -> None:
        """End it for good; the search goes on without it."""
        logger.warning("the search goes on without %s: %s", self, reason)
        self._note_failure(reason)
        self.left_out = True
        self.kill()

    def activity(self) -> HostActivity:
        """Return what it does now."""
        while self._recent and self._recent[0] < time.monotonic() - _MINUTE_S:
            self._recent.popleft()
        states = {
            HostState.LEFT_OUT: self.left_out,
            HostState.READY: self.ready,
            HostState.LOST: self._lost,
            HostState.OPENING: self._facts is not None,
        }
        failures, failure, failed_at = self._failures
        return HostActivity(
            node=self._facts.node if self._facts else "",
            device=str(self._facts or ""),
            state=next((state for state, holds in states.items() if holds), HostState.WAITING),
            queue=self.load,
            judged=self._verdicts,
            per_minute=len(self._recent),
            failures=failures,
            last_failure=failure,
            failed_at=failed_at,
        )

    def _note_failure(self, error: Exception) -> None:
        self._failures = self._failures[0] + 1, str(error), time.time()

    def __str__(self) -> str:
        return f"the host on {self._facts.node} ({self._facts})" if self._facts else "a host"

    def call(self, method: str, *arguments: Any) -> Any:
        """Begin one call, and return Ray's reference to its answer."""
        return getattr(self._actor, method).remote(*arguments)

    def kill(self) -> None:
        """End the host, and its judges with it."""
        self._ray.kill(self._actor, no_restart=True)


class RayHosts:
    """The hosts of one search. Raises `ConfigError` if Ray is not installed, or there is no such cluster.

    Args:
        settings: where the cluster is, and how many hosts of which model it should give.
        in_flight: candidates of the search at once, which the hosts share; 0 for as many as a host can use.
    """

    def __init__(self, settings: EvaluationConfig, *, in_flight: int = 0) -> None:
        self._address = settings.address
        self._ray = connect(settings.address)
        ((self.device, count),) = settings.devices.items()
        each = _ON_A_PROCESSOR if self.device == "CPU" else MOST_PER_GPU
        self.in_flight = in_flight or each * count
        """Candidates of the search at once."""
        most = max(each, -(-self.in_flight // count))
        self.hosts = [RayHost(self._ray, self.device, most=most) for _ in range(count)]
        """All of them, those that are left out among them."""
        here = fingerprint(this_machine())
        self._expected: Fingerprint = {name: here[name] for name in ON_EVERY_MACHINE}

    def __len__(self) -> int:
        """Return the number of hosts asked for."""
        return len(self.hosts)

    def machine(self) -> Machine:
        """Wait for the first host, and return the machine that it sees."""
        calls = [host.call("facts") for host in self.hosts]
        with ended_by_ctrl_c():
            done, _ = self._ray.wait(calls, timeout=_SILENCE_S)
            while not done:
                logger.warning(
                    "waiting for a host: no node of the cluster has %s free; `evokernel doctor --ray %s` says what "
                    "they have",
                    self.device,
                    self._address,
                )
                done, _ = self._ray.wait(calls, timeout=_SILENCE_S)
        try:
            facts: HostFacts = self._ray.get(done[0])
        except self._ray.exceptions.RayError as error:
            raise HarnessError(f"no host starts in the cluster: {_first_line(error)}") from None
        self._expected = {**facts.fingerprint, **self._expected}
        return facts.machine

    @asynccontextmanager
    async def open(self, opening: HostOpening) -> AsyncIterator[Evaluator]:
        """Open the first host that comes up, then the others in the background; end all of them with the context.

        Raises as `open_evaluator` does, and `HarnessError` where no host is fit.
        """
        keepers: list[asyncio.Task[None]] = []
        try:
            run = await self._open_first(opening)
            further, pool = opening.joining(run), _HostPool(self.hosts)
            for host in pool.left:
                keepers.append(asyncio.create_task(pool.keep(host, further, self._expected)))
            yield RayEvaluator(run.identity, pool, further, expected=self._expected, hosts=self.hosts)
        finally:
            for keeper in keepers:
                keeper.cancel()
            await asyncio.gather(*keepers, return_exceptions=True)
            await self._close()

    async def _open_first(self, opening: HostOpening) -> JoinedRun:
        """Open the run on one host, of those that are up."""
        while True:
            left = [host for host in self.hosts if not host.left_out]
            facts = {asyncio.ensure_future(host.ask("facts")): host for host in left}
            done, late = await asyncio.wait(facts, return_when=asyncio.FIRST_COMPLETED)
            for call in late:
                call.cancel()
            host = facts[done.pop()]
            try:
                return await host.open(opening, self._expected)
            except HostLost as error:
                logger.warning("a host was lost before the search began: %s", error)
                await asyncio.sleep(_AGAIN_S)
            except HostMismatch as error:
                if len(left) == 1:
                    raise
                host.leave_out(error)

    async def _close(self) -> None:
        closing = [host.ask("close") for host in self.hosts if host.ready]
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*closing, return_exceptions=True), _CLOSING_S)
        for host in self.hosts:
            host.kill()
        self._ray.shutdown()


class _HostPool:
    """Hosts that can be asked."""

    def __init__(self, hosts: Collection[RayHost]) -> None:
        self.left = [host for host in hosts if not host.left_out]
        """Those that may be asked."""
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def take(self, *, avoid: Collection[RayHost]) -> AsyncIterator[RayHost]:
        """Wait for a host with room; one of `avoid` comes last. Raises `HarnessError` where none is fit."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self.left or self._open())
            if not self.left:
                raise HarnessError("no host of the cluster is fit for this search; see the warnings before")
            host = min(self._open(), key=lambda each: (each in avoid, each.load))
            host.load += 1
        try:
            yield host
        finally:
            host.load -= 1
            await self.tell()

    def _open(self) -> list[RayHost]:
        return [host for host in self.left if host.ready and host.load < host.most]

    async def tell(self) -> None:
        """Wake those that wait for a host."""
        async with self._changed:
            self._changed.notify_all()

    async def keep(self, host: RayHost, opening: HostOpening, expected: Fingerprint) -> None:
        """Open a host, and again whenever it was lost; leave one out that is not like the others."""
        while True:
            while host.ready:
                await asyncio.sleep(_AGAIN_S)
            try:
                await host.open(opening, expected)
            except HostLost:
                await asyncio.sleep(_AGAIN_S)
            except EvokernelError as error:
                host.leave_out(error)
                self.left.remove(host)
                return
            finally:
                await self.tell()


class RayEvaluator:
    """Judges candidates on the hosts of a cluster; see `evokernel.protocols.Evaluator`. `RayHosts.open` makes one."""

    def __init__(
        self,
        identity: EvaluatorIdentity,
        pool: _HostPool,
        opening: HostOpening,
        *,
        expected: Fingerprint,
        hosts: Sequence[RayHost],
    ) -> None:
        self.identity = identity
        self._hosts = hosts
        self._pool = pool
        self._opening = opening
        self._expected = expected

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        """Return the verdict on one candidate.

        Raises `HarnessError` if it was lost on three hosts, or a host failed by itself.
        """
        sent = replace(request, after_process=None)  # it stays in this process
        found: Evaluation = await self._ask("evaluate", sent, subject=request.candidate.id)
        return found

    async def admit(self, check: HiddenCheck) -> str:
        """Return why a hidden check is not fit for the task, or nothing. Raises `HarnessError` as `evaluate` does."""
        return str(await self._ask("admit", check, subject="a hidden check"))

    async def recheck(self, request: EvaluationRequest) -> Evaluation | None:
        """Return the verdict on a candidate that fails one of the request's checks, else None. Raises as `evaluate`."""
        found: Evaluation | None = await self._ask("recheck", request, subject=request.candidate.id)
        return found

    async def _ask(self, method: str, asked: EvaluationRequest | HiddenCheck, *, subject: str) -> Any:
        used: list[RayHost] = []
        while True:
            async with self._pool.take(avoid=used) as host:
                used.append(host)
                try:
                    return await host.judge(method, asked, self._opening, self._expected)
                except (HostLost, HostMismatch) as error:
                    lost = error
            if len(used) > _ELSEWHERE:
                raise HarnessError(f"{len(used)} hosts were lost while they judged {subject}: {lost}")

    def host_activity(self) -> Sequence[HostActivity]:
        """Return what each host does now."""
        return [host.activity() for host in self._hosts]


def _first_line(error: Exception) -> str:
    """Return an error of Ray in one line: its class and the cause that it names last."""
    said = str(error).strip().partition("\n")[0].partition(" The task may")[0]
    return f"{type(error).__name__}: {said.rpartition('unavailable: ')[2]}"
