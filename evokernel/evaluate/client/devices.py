"""Where judges work: one seat for each device, taken by one candidate at a time, its judge replaced when it is lost."""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from evokernel.errors import EvokernelError, LanguageError, TaskError
from evokernel.evaluate.client.builds import Shapes
from evokernel.evaluate.client.judge_process import JudgeClient, JudgeLost
from evokernel.evaluate.device.cores import Cores
from evokernel.evaluate.device.nvml import GpuFacts
from evokernel.evaluate.wire import Message

logger = logging.getLogger(__name__)

_ANSWER_LIMIT_S = 900.0
_PATIENCE = 2  # judges in a row that do not start before a device is given up, if it is not the only one


class JudgeHandle(Protocol):
    """What the engine asks of a judge that has started."""

    @property
    def alive(self) -> bool:
        """Whether it can still be asked."""
        ...

    async def ask(self, message: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> Message:
        """Return the answer to one message. Raises `JudgeLost`."""
        ...

    async def close(self, *, kill: bool = False) -> None:
        """End it; idempotent."""
        ...


class StartJudge(Protocol):
    """How a judge is started."""

    async def __call__(
        self, setup: Mapping[str, Any], *, environment: Mapping[str, str]
    ) -> tuple[JudgeHandle, Message]:
        """Return a judge that is ready and what it says of itself; where it raises, nothing of it is left.

        Raises:
            TaskError: the task is not fit; the judge's own words.
            LanguageError: a tool is missing.
            JudgeLost: it could not start.
        """
        ...


async def start_judge(setup: Mapping[str, Any], *, environment: Mapping[str, str]) -> tuple[JudgeHandle, Message]:
    """Start a judge process with some variables more than ours; see `StartJudge`."""
    judge = await JudgeClient.launch(_ANSWER_LIMIT_S, environment)
    try:
        hello = await judge.ask({"op": "start", **setup})
    except BaseException:
        await judge.close(kill=True)
        raise
    return judge, hello


@dataclass(frozen=True, slots=True)
class SearchJudge:
    """The judge of a search on one device, and its hidden shapes."""

    handle: JudgeHandle
    hidden: Shapes


class DeviceSlot:
    """One device with the cores that go with it. `gpu` is None on a processor."""

    def __init__(self, start: StartJudge, cores: Cores, *, gpu: GpuFacts | None = None) -> None:
        self.cores = cores
        self.gpu = gpu
        self.failures = 0
        """Judges in a row that did not start here."""
        self._start = start
        self._judge: SearchJudge | None = None

    @property
    def judge(self) -> SearchJudge | None:
        """The judge of the search that waits here; None where there is none that can be asked."""
        return self._judge if self._judge is not None and self._judge.handle.alive else None

    async def fresh(self, setup: Mapping[str, Any]) -> tuple[JudgeHandle, Message]:
        """Return one more judge on this device, for the caller to close. Raises as `StartJudge` does."""
        environment = {} if self.gpu is None else {"CUDA_VISIBLE_DEVICES": self.gpu.uuid}
        try:
            judge, hello = await self._start({**setup, "cores": asdict(self.cores)}, environment=environment)
        except EvokernelError:
            self.failures += 1
            raise
        self.failures = 0
        return judge, hello

    async def open(self, setup: Mapping[str, Any]) -> tuple[SearchJudge, Message]:
        """Start the judge of the search, in the place of one that may be there. Raises as `StartJudge` does."""
        await self.close(kill=True)
        handle, hello = await self.fresh(setup)
        self._judge = judge = SearchJudge(handle, shapes_of(hello))
        return judge, hello

    async def reopen(self, setup: Mapping[str, Any], *, device: str) -> SearchJudge:
        """Start the judge of the search anew; it must be on a device of this model.

        Raises:
            JudgeLost: it does not start.
        """
        try:
            judge, hello = await self.open(setup)
        except (TaskError, LanguageError) as error:  # all was well with the first judge of the run
            raise JudgeLost(f"on {self}: {error}") from error
        if hello["device"] != device:
            await self.close()
            self.failures = _PATIENCE
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
    """All seats of an evaluator; whoever asks first is served first."""

    def __init__(self, seats: Sequence[DeviceSlot]) -> None:
        self._all = tuple(seats)
        self._left = list(seats)
        self._free = list(seats)
        self._places = asyncio.Semaphore(len(seats))

    def __len__(self) -> int:
        """Return how many candidates can be at work."""
        return len(self._left)

    @asynccontextmanager
    async def take(self, *, rather_not: Collection[DeviceSlot] = ()) -> AsyncIterator[DeviceSlot]:
        """Wait for a free seat and hold it: one whose judge is ready before one that has to start it.

        Seats in `rather_not` are taken only where no other is free.
        """
        await self._places.acquire()
        seat = min(self._free, key=lambda each: (each in rather_not, each.judge is None, each.failures))
        self._free.remove(seat)
        try:
            yield seat
        finally:
            self._put_back(seat)

    def _put_back(self, seat: DeviceSlot) -> None:
        if seat.failures >= _PATIENCE and len(self._left) > 1:
            self._left.remove(seat)
            logger.warning("no judge starts on %s; the search goes on without it", seat)
            return
        self._free.append(seat)
        self._places.release()

    async def close(self) -> None:
        """End the judges of the search on every seat."""
        await asyncio.gather(*(seat.close() for seat in self._all))


def shapes_of(hello: Mapping[str, Any]) -> Shapes:
    """Return the shapes a judge will call kernels with beside those of the search workloads."""
    return tuple(dict(dims) for dims in hello["hidden_shapes"])
