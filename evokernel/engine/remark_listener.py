"""Listener that stores notices as remarks, for people to read after the run."""

from archive.store import Store
from evokernel.records.events import Event, Notice
from evokernel.records.remarks import RemarkKind


class RemarkListener:
    """Writes notices with a kind into the store, earlier ones once a session is open.

    A refused search leaves the store as it was. A device gets a remark only where it is another one than before.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: list[tuple[RemarkKind, Notice]] = []

    def hear(self, event: Event) -> None:
        """Store the event if it is to be kept."""
        if isinstance(event, Notice) and event.kind is not None:
            self._waiting.append((event.kind, event))
        if self._waiting and self._store.remarks.session is not None:
            waiting, self._waiting = self._waiting, []
            for kind, notice in waiting:
                self._write(kind, notice)

    def _write(self, kind: RemarkKind, notice: Notice) -> None:
        remarks = self._store.remarks
        known = [each.text for each in remarks.all([kind])] if kind is RemarkKind.DEVICE_CHANGE else []
        if known[-1:] != [notice.text]:
            remarks.add(kind, notice.text, step=notice.step, candidate=notice.candidate)
