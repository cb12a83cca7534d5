"""A search in a thread of its own: the caller's thread draws, and may have a running event loop."""

import asyncio
import queue
import threading
from concurrent.futures import CancelledError, Future
from contextlib import nullcontext, suppress
from pathlib import Path

from archive.store import Store
from evokernel.cli.display.live import JudgedLine, SearchView
from evokernel.cli.display.snapshot import NOTHING, Snapshot, SnapshotTaker
from evokernel.cli.session import REDRAW_S
from evokernel.config.run import RunConfig
from evokernel.engine.assemble import assemble
from evokernel.engine.search import Search
from evokernel.records.events import Event, Notice

_STOP = "interrupted"


class BackgroundSearch:
    """One session of a search; `follow` begins it and returns when it ends."""

    def __init__(self, config: RunConfig, path: Path) -> None:
        self._config = config
        self._path = path
        self._news: queue.SimpleQueue[Event | JudgedLine | Snapshot | None] = queue.SimpleQueue()
        self._loop = asyncio.new_event_loop()
        self._ended: Future[str] = Future()
        self._engine: Search | None = None
        self._work: asyncio.Task[str] | None = None
        self._interrupts = 0

    def hear(self, event: Event) -> None:
        """Pass an event of the engine on to the thread that draws."""
        self._news.put(event)

    def follow(self, view: SearchView | None) -> str:
        """Search, and show it; return why it ended.

        Raises:
            EvokernelError: from the engine.
            KeyboardInterrupt: the second one; the first finishes what is in flight.
        """
        thread = threading.Thread(target=self._run, name="evokernel search", daemon=True)
        thread.start()
        try:
            with view or nullcontext():
                if view is not None:
                    view.hear(Notice("loading the task and its tool chain"))
                    view.tick(NOTHING)
                self._drain(view)
        except BaseException:  # whatever it was, the search must not go on unseen
            self._interrupt(times=2)
            raise
        finally:
            thread.join()
        try:
            return self._ended.result()
        except CancelledError:
            raise KeyboardInterrupt from None

    def _drain(self, view: SearchView | None) -> None:
        """Show the news until the search has ended."""
        while True:
            try:
                news = self._news.get()
                if news is None:
                    return
                if isinstance(news, Snapshot):
                    if view is not None:
                        view.tick(news)
                elif view is not None:
                    view.hear(news)
            except KeyboardInterrupt:
                self._interrupt()
                if view is not None and self._interrupts == 1:
                    view.hear(Notice("interrupted: finishing what is in flight; once more stops at once"))

    def _interrupt(self, *, times: int = 1) -> None:
        self._interrupts += times
        with suppress(RuntimeError):  # the search has just ended
            self._loop.call_soon_threadsafe(self._obey)

    def _obey(self) -> None:
        """Act on the interrupts so far."""
        if self._engine is not None and self._interrupts:
            self._engine.stop(_STOP)
        if self._work is not None and self._interrupts > 1:
            self._work.cancel()

    # ------------------------------------------------------------------------------------------------ its own thread

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                self._ended.set_result(runner.run(self._search()))
        except asyncio.CancelledError:
            self._ended.cancel()
        except BaseException as error:  # noqa: BLE001  the edge of the thread: `follow` raises it
            self._ended.set_exception(error)
        finally:
            self._news.put(None)

    async def _search(self) -> str:
        with Store.open(self._path, write=True) as store:
            engine = self._engine = assemble(self._config, store, listeners=(self,))
            watch = SnapshotTaker(engine, store)
            work = self._work = asyncio.create_task(engine.run())
            self._obey()
            try:
                while not work.done():
                    await asyncio.wait([work], timeout=REDRAW_S)
                    self._news.put(watch.snapshot())
            finally:  # the engine must have ended before the store is closed
                if not work.done():
                    work.cancel()
                    await asyncio.wait([work])
            return await work
