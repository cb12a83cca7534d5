"""Device slots with their judges: one candidate at a time on each device, a lost judge replaced."""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from evokernel.errors import EvokernelError, LanguageError, TaskError
from evokernel.evaluate.client.builds import Shapes
from evokernel.evaluate.client.judge_process import JudgeClient, JudgeLost
from evokernel.evaluate.device.cores import Cores
from evokernel.evaluate.device.nvml import GpuFacts
from evokernel.evaluate.wire import Message

logger = logging.getLogger(__name__)

_MOST_FAILURES = 2  # consecutive failed starts before a device is given up, unless it is the only one


class StartJudge(Protocol):
    """Starts a judge on a device."""

    async def __call__(
        self, setup: Mapping[str, Any], *, environment: Mapping[str, str]
    ) -> tuple[JudgeClient, Message]:
        """Return a judge that is ready and its description of itself; on an exception no process is left.

        Raises:
            TaskError: the task is not fit; the judge's own words.
            LanguageError: a tool is missing.
            JudgeLost: it could not start.
        """

    async def prepare(self, setup: Mapping[str, Any], *, environment: Mapping[str, str]) -> tuple[JudgeClient, Message]:
        """Return a judge that has done what needs no device, and the hidden shapes that it has drawn.

        It waits for the question `start`. With `imports` in the setup it has imported what its baselines are compiled
        with, too. Errors are those of a call.
        """


@dataclass(frozen=True, slots=True)
class SearchJudge:
    """The judge of a search on one device, and its hidden shapes."""

    handle: JudgeClient
    hidden: Shapes


class DeviceSlot:
    """One device with the cores that go with it. `gpu` is None on a processor."""

    def __init__(self, start: StartJudge, cores: Cores, *, gpu: GpuFacts | None = None) -> None:
        self.cores = cores
        self.gpu = gpu
        self.failures = 0
        """Consecutive judges that did not start here."""
        self._start = start
        self._judge: SearchJudge | None = None

    @property
    def judge(self) -> SearchJudge | None:
        """The idle judge of the search on this device; None where none can be asked."""
        return self._judge if self._judge is not None and self._judge.handle.alive else None

    async def fresh(self, setup: Mapping[str, Any]) -> tuple[JudgeClient, Message]:
        """Return one more judge on this device, for the caller to close. Raises as `StartJudge` does."""
        with self._counting():
            return await self._start({**setup, "cores": asdict(self.cores)}, environment=self._environment)

    async def prepare(self, setup: Mapping[str, Any], *, imports: bool) -> tuple[JudgeClient, Message]:
        """Return one more judge that has not used the device yet, for `start`. Raises as `StartJudge` does."""
        setup = {**setup, "cores": asdict(self.cores), "imports": imports}
        with self._counting():
            return await self._start.prepare(setup, environment=self._environment)

    async def start(
        self, prepared: tuple[JudgeClient, Message], setup: Mapping[str, Any]
    ) -> tuple[JudgeClient, Message]:
        """Let a judge that was prepared here use the device, and return it ready. Raises as `StartJudge` does."""
        judge, drawn = prepared
        message = {"op": "start", **setup, "cores": asdict(self.cores), "probes": drawn["probes"]}
        with self._counting():
            try:
                return judge, await judge.ask(message)
            except BaseException:
                await judge.close(kill=True)
                raise

    @property
    def _environment(self) -> Mapping[str, str]:
        return {} if self.gpu is None else {"CUDA_VISIBLE_DEVICES": self.gpu.uuid}

    @contextmanager
    def _counting(self) -> Iterator[None]:
        """Count consecutive failures."""
        try:
            yield
        except EvokernelError:
            self.failures += 1
            raise
        self.failures = 0

    async def open(self, setup: Mapping[str, Any]) -> tuple[SearchJudge, Message]:
        """Start the judge of the search, in place of an earlier one. Raises as `StartJudge` does."""
        await self.close(kill=True)
        handle, hello = await self.fresh(setup)
        self._judge = judge = SearchJudge(handle, shapes_of(hello))
        return judge, hello

    async def reopen(self, setup: Mapping[str, Any], *, device: str) -> SearchJudge:
        """Start the judge of the search again; it must find a device of this model.

        Raises `JudgeLost` if it does not start.
        """
        try:
            judge, hello = await self.open(setup)
        except (TaskError, LanguageError) as error:  # the first judge of the run accepted both
            raise JudgeLost(f"on {self}: {error}") from error
        if hello["device"] != device:
            await self.close()
            self.failures = _MOST_FAILURES
            raise JudgeLost(f"{self} turned out to be {hello['device']}, and this search is on {device}")
        return judge

    async def close(self, *, kill: bool = False) -> None:
        """End the judge of the search, if there is one."""
        judge, self._judge = self._judge, None
        if judge is not None:
            await judge.handle.close(kill=kill)

    def __str__(self) -> str:
        return "the processor" if self.gpu is None else f"{self.gpu.name} {self.gpu.uuid}"


class DevicePool:
    """All slots of an evaluator, handed out first come, first served."""

    def __init__(self, slots: Sequence[DeviceSlot]) -> None:
        self._all = tuple(slots)
        self._left = list(slots)
        self._free = list(slots)
        self._places = asyncio.Semaphore(len(slots))

    def __len__(self) -> int:
        """Return how many candidates can be judged at once."""
        return len(self._left)

    @asynccontextmanager
    async def take(
        self, *, avoid: Collection[DeviceSlot] = (), prefer: Collection[DeviceSlot] = ()
    ) -> AsyncIterator[DeviceSlot]:
        """Wait for a free slot and hold it; one whose judge is ready comes before one that has to start it.

        Slots in `avoid` are taken only where no other is free, and those in `prefer` before others.
        """
        await self._places.acquire()
        slot = min(self._free, key=lambda each: (each in avoid, each not in prefer, each.judge is None, each.failures))
        self._free.remove(slot)
        try:
            yield slot
        finally:
            self._put_back(slot)

    def _put_back(self, slot: DeviceSlot) -> None:
        if slot.failures >= _MOST_FAILURES and len(self._left) > 1:
            self._left.remove(slot)
            logger.warning("no judge starts on %s; the search goes on without it", slot)
            return
        self._free.append(slot)
        self._places.release()

    async def close(self) -> None:
        """End the judges of the search on every slot."""
        await asyncio.gather(*(slot.close() for slot in self._all))


def shapes_of(hello: Mapping[str, Any]) -> Shapes:
    """Return the shapes beside the search workloads that a judge calls kernels with."""
    return tuple(dict(dims) for dims in hello["hidden_shapes"])
