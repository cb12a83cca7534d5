"""Hosts placed by Ray, behind the protocol of evaluators. No exception or object of Ray passes this module.

A lease on a candidate is one call of one host. Ray repeats no call (`max_task_retries=0`), so a candidate whose host
was lost is given to another here. A verdict reaches only the call that asked for it: one that comes late, from a host
that was thought lost, finds nobody and is dropped.
"""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from typing import Any

from evokernel.config.run import EvaluationConfig
from evokernel.errors import ConfigError, EvokernelError, HarnessError
from evokernel.evaluate.cluster.fingerprint import ON_EVERY_MACHINE, Fingerprint, fingerprint
from evokernel.evaluate.cluster.host import Host, HostFacts, HostMismatch, HostOpening
from evokernel.evaluate.device.device_class import Machine, this_machine
from evokernel.protocols import Evaluator
from evokernel.records.evaluation import Evaluation, EvaluationRequest, EvaluatorIdentity
from evokernel.records.hidden_check import HiddenCheck

logger = logging.getLogger(__name__)

CPU_HOSTS = "evokernel"
"""The resource that a node declares one of for each processor that may judge: two hosts must not share one."""
IN_FLIGHT = 4
"""Candidates that one host has at once: one at its judge, others at the compilers."""
_ELSEWHERE = 2  # times that a candidate is given to another host
_SILENCE_S = 30.0
_AGAIN_S = 1.0
_CLOSING_S = 15.0
_KNOCK_S = 10.0


class HostLost(HarnessError):
    """The host, its node or the way to it was lost during a call."""


def connect(address: str) -> Any:
    """Join the cluster as a driver and return the module `ray`. Raises `ConfigError` where that cannot be."""
    try:
        import ray
    except ImportError:
        raise ConfigError('hosts: ray needs Ray: pip install "evokernel-search[ray]", on every node') from None
    if not ray.is_initialized():
        _knock(address)
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError) as error:
            first = str(error).strip().partition("\n")[0]
            raise ConfigError(
                f"no Ray cluster at {address!r} can be joined ({first}); start one with `ray start --head`, or correct "
                "evaluation.address, or give this machine the cluster's token (docs/cluster.md)"
            ) from None
    return ray


def _knock(address: str) -> None:
    """Refuse an address where nobody listens: Ray would try for minutes. Raises `ConfigError`."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdecimal()):
        return
    try:
        socket.create_connection((host, int(port)), _KNOCK_S).close()
    except OSError as error:
        raise ConfigError(
            f"nothing answers at {address} ({error}): start a cluster there with `ray start --head`, or correct "
            "evaluation.address (docs/cluster.md)"
        ) from None


class RayHost:
    """The engine's handle on one host; Ray starts its actor where there is room, and again when it dies."""

    def __init__(self, ray: Any, device: str) -> None:
        self.load = 0
        """Candidates it has now."""
        self.ready = False
        """Whether its evaluator is open, as far as is known."""
        self._ray = ray
        place = (
            {"resources": {CPU_HOSTS: 1}} if device.upper() == "CPU" else {"num_gpus": 1, "accelerator_type": device}
        )
        options = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": 0, "max_concurrency": 4 * IN_FLIGHT}
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

    def call(self, method: str, *arguments: Any) -> Any:
        """Begin one call, and return Ray's reference to its answer."""
        return getattr(self._actor, method).remote(*arguments)

    def kill(self) -> None:
        """End the host, and its judges with it."""
        self._ray.kill(self._actor, no_restart=True)


class RayHosts:
    """The hosts of one search.

    Args:
        settings: where the cluster is, and how many hosts of which model it should give.

    Raises:
        ConfigError: Ray is not installed, or there is no such cluster.
    """

    def __init__(self, settings: EvaluationConfig) -> None:
        self._ray = connect(settings.address)
        ((self.device, count),) = settings.devices.items()
        self.hosts = [RayHost(self._ray, self.device) for _ in range(count)]
        """Those that are not left out."""
        here = fingerprint(this_machine())
        self._expected: Fingerprint = {name: here[name] for name in ON_EVERY_MACHINE}

    def __len__(self) -> int:
        """Return the number of hosts asked for."""
        return len(self.hosts)

    def machine(self) -> Machine:
        """Wait for the first host, and return the machine that it sees."""
        calls = [host.call("facts") for host in self.hosts]
        done, _ = self._ray.wait(calls, timeout=_SILENCE_S)
        while not done:
            logger.warning("waiting for a host: no node of the cluster has %s free", self.device)
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
        pool = _HostPool(self.hosts)
        keepers: list[asyncio.Task[None]] = []
        try:
            first, run = await self._open_first(opening)
            first.ready = True
            further = opening.joining(run)
            for host in self.hosts:
                keepers.append(asyncio.create_task(pool.keep(host, further, self._expected)))
            yield RayEvaluator(run.identity, pool, further, self._expected)
        finally:
            for keeper in keepers:
                keeper.cancel()
            await asyncio.gather(*keepers, return_exceptions=True)
            await self._close()

    async def _open_first(self, opening: HostOpening) -> tuple[RayHost, Any]:
        """Open the run on one host, of those that are up."""
        while True:
            facts = {asyncio.ensure_future(host.ask("facts")): host for host in self.hosts}
            done, late = await asyncio.wait(facts, return_when=asyncio.FIRST_COMPLETED)
            for call in late:
                call.cancel()
            host = facts[done.pop()]
            try:
                return host, await host.ask("open", opening, self._expected)
            except HostLost as error:
                logger.warning("a host was lost before the search began: %s", error)
                await asyncio.sleep(_AGAIN_S)
            except HostMismatch as error:
                if len(self.hosts) == 1:
                    raise
                logger.warning("the search begins without a host: %s", error)
                host.kill()
                self.hosts.remove(host)

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
        self._left = list(hosts)
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def take(self, *, avoid: Collection[RayHost]) -> AsyncIterator[RayHost]:
        """Wait for a host with room; one of `avoid` comes last. Raises `HarnessError` where none is fit."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._left or self._open())
            if not self._left:
                raise HarnessError("no host of the cluster is fit for this search; see the warnings before")
            host = min(self._open(), key=lambda each: (each in avoid, each.load))
            host.load += 1
        try:
            yield host
        finally:
            host.load -= 1
            await self.tell()

    def _open(self) -> list[RayHost]:
        return [host for host in self._left if host.ready and host.load < IN_FLIGHT]

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
                await host.ask("open", opening, expected)
                host.ready = True
            except HostLost:
                await asyncio.sleep(_AGAIN_S)
            except EvokernelError as error:
                logger.warning("the search goes on without a host: %s", error)
                host.kill()
                self._left.remove(host)
                return
            finally:
                await self.tell()


class RayEvaluator:
    """Judges candidates on the hosts of a cluster; see `evokernel.protocols.Evaluator`. `RayHosts.open` makes one."""

    def __init__(
        self, identity: EvaluatorIdentity, pool: _HostPool, opening: HostOpening, expected: Fingerprint
    ) -> None:
        self.identity = identity
        self._pool = pool
        self._opening = opening
        self._expected = expected

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        """Return the verdict on one candidate.

        Raises:
            HarnessError: it was lost on three hosts, or a host failed by itself.
        """
        found: Evaluation = await self._ask("evaluate", request, subject=request.candidate.id)
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
                    return await host.ask(method, asked, self._opening, self._expected)
                except HostMismatch as error:  # Ray has started it anew on another node
                    lost: HarnessError = error
                except HostLost as error:
                    lost = error
                host.ready = False  # until it has opened again
            if len(used) > _ELSEWHERE:
                raise HarnessError(f"{len(used)} hosts were lost while they judged {subject}: {lost}")
            logger.warning("a host was lost, and %s goes to another: %s", subject, lost)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
