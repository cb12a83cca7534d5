"""Messages about a search to its people: a new best kernel, the end, faults, models that rest, a budget nearly used."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evokernel.cli.delivery import Delivery
from evokernel.cli.display.following import StoreFollower
from evokernel.cli.display.snapshot import NOTHING, Snapshot
from evokernel.cli.display.text import one_line, times
from evokernel.cli.display.watch_json import best_document
from evokernel.config.notify import MessageKind
from evokernel.config.run import BudgetConfig, RunConfig
from evokernel.config.session_budget import SESSION_LIMIT
from evokernel.engine.stoppers import LIMITS
from evokernel.errors import EvokernelError
from evokernel.protocols import Listener
from evokernel.records.evaluation_document import fields_document
from evokernel.records.events import Event, Notice, ResultCommitted
from evokernel.records.leader import LeaderChange
from evokernel.records.remarks import RemarkKind
from evokernel.report.documents import FORMAT

PATIENCE_S = 15.0
"""The longest that the end of a session waits for its messages, in s."""
LOOK_S = 5.0
"""Time between two looks at the budget, in s."""
_NEARLY = 0.8
_KINDS: dict[RemarkKind, MessageKind] = {RemarkKind.FAULT: "fault", RemarkKind.MODEL_REST: "models"}


def tell_end(config: RunConfig, store: Path, reason: str, *, warn: Listener) -> None:
    """Tell the receivers of a config that its run has ended, where the last session did not know it would be the last.

    Raises `ConfigError` if a receiver cannot be used.
    """
    follower = StoreFollower(store)
    try:
        snapshot = follower.look().snapshot
    finally:
        follower.close()
    about = {"task": Path(config.task).stem, "store": str(store)}
    notifier = Notifier([Delivery(each) for each in config.notify], about=about, budget=config.budget, warn=warn)
    notifier.watch(lambda: snapshot)
    notifier.reason = reason
    with notifier.until_the_end():
        pass


class Notifier:
    """A listener that writes messages and hands them to deliveries.

    Args:
        about: fields of every message: store and task.
        warn: shows a delivery that failed.
    """

    def __init__(
        self, deliveries: Sequence[Delivery], *, about: dict[str, str], budget: BudgetConfig, warn: Listener
    ) -> None:
        self._deliveries = deliveries
        self._about = about
        self._budget = budget
        self._warn = warn
        self._snapshot: Callable[[], Snapshot] = lambda: NOTHING
        self._told: dict[Delivery, float] = {}
        """Speed-up of the last best kernel that each receiver was told, or of the one before this session."""
        self._nearly: set[str] | None = None
        """Limits that are nearly used, as told or known from before this session."""
        self._next_look_s = 0.0
        self.reason = ""
        """The reason for the end of the session, set before `until_the_end` is left."""
        self.cut_off = False
        """True where the session ends at once."""

    def watch(self, snapshot: Callable[[], Snapshot]) -> None:
        """Name the function that takes a snapshot of the search, once there is one."""
        self._snapshot = snapshot

    def hear(self, event: Event) -> None:
        """Tell of an event."""
        if isinstance(event, Notice):
            if event.warning and event.kind in _KINDS:
                self._tell(_KINDS[event.kind], event.text)
            return
        if self._deliveries:
            self._best(event.change if isinstance(event, ResultCommitted) else None)
            self._look_at_budget()
        self._say_troubles()

    @contextmanager
    def until_the_end(self) -> Iterator[None]:
        """Tell of the end of a session, whose `reason` or error is known by then, and wait until all is sent.

        Nothing is told, nor waited for, where it is `cut_off`; nor is the end by a limit of this session alone told.
        """
        try:
            yield
        except Exception as error:
            self._end(f"ended by an error: {error}")
            raise
        self._end(self.reason)

    def _end(self, reason: str) -> None:
        if not self.cut_off and not reason.startswith(SESSION_LIMIT):  # the run goes on with the next slice
            leader = self._safe_snapshot()
            leads = f"; the best kernel is at {times(leader.progress.best_speedup)}" if leader.best else ""
            self._tell("end", f"{reason}{leads}")
        for delivery in self._deliveries:
            delivery.finish()
        ends_s = time.monotonic() + (0.0 if self.cut_off else PATIENCE_S)
        for delivery in self._deliveries:
            delivery.close(patience_s=max(0.0, ends_s - time.monotonic()))
        self._say_troubles()

    def _safe_snapshot(self) -> Snapshot:
        """Return a snapshot of the search; an empty one where the store cannot be read, which its own error says."""
        try:
            return self._snapshot()
        except EvokernelError:
            return NOTHING

    def _best(self, change: LeaderChange | None) -> None:
        seed = change is not None and change.operator == "seed"
        for delivery in self._deliveries:
            if delivery not in self._told or seed:  # neither the lead of an earlier session nor the seed is news
                self._told[delivery] = self._led_before(change)
            if change is None or seed:
                continue
            told = self._told[delivery]
            if change.speedup <= told:
                told = 0.0  # what was told did not hold
            if change.speedup >= told * delivery.config.gain:
                self._told[delivery] = change.speedup
                over = f" ({change.speedup / told:.2f} times the last one told)" if told else ""
                found = f"{change.operator} found a kernel at {times(change.speedup)}{over}"
                self._send(delivery, "best", f"{found}: {one_line(change.rationale, width=160)}")

    def _led_before(self, change: LeaderChange | None) -> float:
        snapshot = self._snapshot()
        if change is None or change.operator == "seed":
            return snapshot.progress.best_speedup
        earlier = [each.speedup for each in snapshot.improvements if each.seq < change.seq]
        return earlier[0] if earlier else 0.0

    def _look_at_budget(self) -> None:
        if time.monotonic() < self._next_look_s:
            return
        self._next_look_s = time.monotonic() + LOOK_S
        progress, used = self._snapshot().progress, dict[str, float]()
        for name, limit in LIMITS.items():
            most, amount = getattr(self._budget, name), limit.used(progress)
            if most and amount is not None and limit.even and amount >= _NEARLY * most:
                used[name] = amount / most
        if self._nearly is not None:
            for name in used.keys() - self._nearly:
                most = getattr(self._budget, name)
                self._tell("budget", f"{used[name]:.0%} of the budget of {most:g} {name} is used")
        self._nearly = {*used, *(self._nearly or ())}

    def _tell(self, kind: MessageKind, text: str) -> None:
        for delivery in self._deliveries:
            self._send(delivery, kind, text)

    def _send(self, delivery: Delivery, kind: MessageKind, text: str) -> None:
        if kind not in delivery.config.on:
            return
        snapshot = self._safe_snapshot()
        document: dict[str, Any] = {
            "format": FORMAT,
            "event": kind,
            "text": text,
            "at": time.time(),
            **self._about,
            "best": best_document(snapshot),
            **fields_document(snapshot, "results", "correct"),
            **fields_document(snapshot.progress, "seconds", "cost_usd"),
            "priced": snapshot.priced,
        }
        delivery.send(document)

    def _say_troubles(self) -> None:
        for delivery in self._deliveries:
            for trouble in delivery.troubles():
                self._warn.hear(Notice(f"notify: {trouble}", warning=True))
