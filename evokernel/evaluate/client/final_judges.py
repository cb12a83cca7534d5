"""Judges of winners, each a fresh process, made ready for a GPU in time and never beside a clock.

While one judge sets up its device, candidates are built for the hidden shapes that it has drawn, and the next judge
does what needs no device: it loads the task, draws its shapes and imports torch's compiler. All that has ended before
the first one times anything. On a processor nothing is done ahead, since it would take the cores that are timed on.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from evokernel.errors import EvokernelError
from evokernel.evaluate.client.builds import Shapes
from evokernel.evaluate.client.devices import DeviceSlot, shapes_of
from evokernel.evaluate.client.judge_process import JudgeClient
from evokernel.evaluate.wire import Message

logger = logging.getLogger(__name__)

Builds = Callable[[Shapes], Awaitable[object]]
"""Builds what a judge will be asked about, for the shapes beside the search workloads; the builder remembers it."""
Opened = tuple[JudgeClient, Message]
"""A judge that is ready, and its description of itself."""


@dataclass(frozen=True, slots=True)
class _Kept:
    slot: DeviceSlot
    opened: Opened


class FinalJudges:
    """Opens the judges of winners for one evaluator, which closes those that it is given.

    Args:
        ahead: whether the next one may be made ready while the present one is at work: not on a processor.
    """

    def __init__(self, *, ahead: bool) -> None:
        self._ahead = ahead
        self._next: dict[DeviceSlot, asyncio.Task[Opened]] = {}
        self._kept: _Kept | None = None

    @property
    def slots(self) -> Collection[DeviceSlot]:
        """The devices that have a judge here: one that is made ready, or the one that was kept."""
        return {*self._next, *([self._kept.slot] if self._kept is not None else [])}

    async def open(
        self, slot: DeviceSlot, setup: Mapping[str, Any], *, builds: Builds, another: Mapping[str, Any] | None
    ) -> Opened:
        """Return a judge of a winner on a device, and make ready there `another` with its setup, if there is one.

        Raises as `StartJudge`.
        """
        await self.release()
        if not self._ahead:
            return await slot.fresh(setup)
        prepared = await self._prepared(slot, setup)
        if another is not None:
            self._next[slot] = asyncio.create_task(self._made_ready(slot, another, builds))
        building = asyncio.ensure_future(builds(shapes_of(prepared[1])))
        try:
            return await slot.start(prepared, setup)
        finally:
            building.add_done_callback(_look_at)  # whoever needs the build asks for it again, and hears of its failure

    async def settled(self, slot: DeviceSlot) -> None:
        """Wait until the next judge is ready, or has failed to be: a clock may run then."""
        if slot in self._next:
            await asyncio.wait([self._next[slot]])

    async def keep(self, slot: DeviceSlot, opened: Opened) -> None:
        """Keep a judge that has measured a winner, for what is compared with it there."""
        before, self._kept = self._kept, _Kept(slot, opened)
        if before is not None:
            await before.opened[0].close()

    def take_kept(self, slot: DeviceSlot) -> Opened | None:
        """Return the judge that was kept on a device, for the caller to close; None where there is none."""
        kept = self._kept
        if kept is None or kept.slot is not slot or not kept.opened[0].alive:
            return None
        self._kept = None
        return kept.opened

    async def release(self) -> None:
        """End the judge that was kept, if there is one: it holds much of its device's memory."""
        kept, self._kept = self._kept, None
        if kept is not None:
            await kept.opened[0].close()

    async def drop_next(self) -> None:
        """End the judges that were made ready and are not needed."""
        waiting, self._next = list(self._next.values()), {}
        for task in waiting:
            task.cancel()
        for found in await asyncio.gather(*waiting, return_exceptions=True):
            if not isinstance(found, BaseException):
                await found[0].close(kill=True)

    async def close(self) -> None:
        """End every judge that is left here."""
        await self.drop_next()
        await self.release()

    async def _prepared(self, slot: DeviceSlot, setup: Mapping[str, Any]) -> Opened:
        """Return the judge that was made ready for a device, or one that has only drawn its shapes."""
        waiting = self._next.pop(slot, None)
        if waiting is not None:
            try:
                return await waiting
            except (EvokernelError, OSError) as error:  # of the judge, or of its start: no process, no descriptor left
                logger.warning("the next judge was not made ready on %s, and another one starts: %s", slot, error)
        return await slot.prepare(setup, imports=False)

    async def _made_ready(self, slot: DeviceSlot, setup: Mapping[str, Any], builds: Builds) -> Opened:
        prepared = await slot.prepare(setup, imports=True)
        try:
            await asyncio.gather(builds(shapes_of(prepared[1])), return_exceptions=True)
        except asyncio.CancelledError:
            await prepared[0].close(kill=True)
            raise
        return prepared


def _look_at(building: asyncio.Future[object]) -> None:
    """Take note of an error, of which nobody else is told here."""
    if not building.cancelled():
        building.exception()
