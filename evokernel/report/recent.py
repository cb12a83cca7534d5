"""Events of a run since a moment: the best kernel then and now, the work and its cost, what went wrong."""

from collections.abc import Iterator
from dataclasses import dataclass

from archive.follower import RunFollower, unfinished_lead
from archive.store import Store
from archive.views.recent import RecentWork, work_since
from evokernel.records.leader import LeaderChange
from evokernel.records.remarks import Remark, RemarkKind

TROUBLES = (RemarkKind.FAULT, RemarkKind.MODEL_REST, RemarkKind.FINAL_REFUSED, RemarkKind.DEVICE_CHANGE)
"""Kinds of remarks that a person should know about in the morning."""


@dataclass(frozen=True, slots=True)
class RecentEvents:
    """Events of a run since a moment."""

    since: float
    """The moment, in s since 1970."""
    work: RecentWork
    """What was judged and paid."""
    before: LeaderChange | None
    """The change by which the leader of that moment led; None where there was none."""
    now: LeaderChange | None
    """The change by which the leader leads now; None without one."""
    changes: tuple[LeaderChange, ...]
    """Changes of the leader since that hold, oldest first."""
    troubles: tuple[Remark, ...]
    """Remarks on what went wrong, oldest first."""


def recent_events(store: Store, since: float, follower: RunFollower) -> RecentEvents:
    """Return the events of a run after a moment, in s since 1970; `follower` is brought up to date."""
    with store.database.snapshot():
        follower.advance()
        account = follower.account
        unfinished = unfinished_lead(store, account)
        changes = [change for change in account.changes if change.program_hash not in account.barred]
        changes += [unfinished] if unfinished else []
        return RecentEvents(
            since=since,
            work=work_since(store, since),
            now=unfinished or account.lead,
            before=next((change for change in reversed(changes) if change.at <= since), None),
            changes=tuple(change for change in changes if change.at > since),
            troubles=tuple(remark for remark in _troubles(store) if remark.at > since),
        )


def _troubles(store: Store) -> Iterator[Remark]:
    """Yield the remarks on troubles, without that on the device of the first session, which changed nothing."""
    first = next(iter(store.remarks.all([RemarkKind.DEVICE_CHANGE])), None)
    yield from (remark for remark in store.remarks.all(TROUBLES) if remark != first)
