"""Incremental reading of a run: facts by a few columns of each, cheap enough to repeat during the run."""

from dataclasses import dataclass

import yaml

from archive.account import Axes, JudgedResult, RunAccount, populations_of
from archive.account_facts import account_facts, verdicts_of
from archive.queries import evaluation_at
from archive.store import Store
from evokernel.records.evaluation import Evaluation
from evokernel.records.leader import LeaderChange
from evokernel.records.timing import floor_share


@dataclass(frozen=True, slots=True)
class FollowedResult:
    """A judged result that a follower has read."""

    result: JudgedResult
    """The result."""
    change: LeaderChange | None
    """The change of the leader by that result; None where it did not take the lead."""


class RunFollower:
    """The account of a run; `advance` brings it up to date and reads only new facts."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.seq = 0
        self.account = RunAccount()

    def advance(self, *, most: int | None = None) -> list[FollowedResult]:
        """Take in the facts that are new, `most` at the most, and return the results among them, oldest first.

        May raise `StoreError`.
        """
        if self._store.unchanged_since(self.seq):
            return []
        if not self.account.populations:
            self.account.populations = populations_of(_axes_of(self._store.meta("config") or ""))
        verdicts = verdicts_of(self._store.database)
        found: list[FollowedResult] = []
        until = self._store.last_seq()
        until = until if most is None else min(until, self.seq + most)
        for fact in account_facts(self._store.database, (self.seq + 1, until), verdicts):
            change = self.account.apply(fact)
            if isinstance(fact, JudgedResult):
                found.append(FollowedResult(fact, change))
        self.seq = until
        return found


class LeadingEvaluation:
    """The evaluation of the leading kernel, read again when the leader changes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: Evaluation | None = None
        self._seq = 0

    def of(self, lead: LeaderChange | None) -> Evaluation | None:
        """Return the evaluation of a leader; None without one. May raise `StoreError`."""
        if lead is None:
            return None
        if lead.evaluation_seq != self._seq:
            self._known, self._seq = evaluation_at(self._store.database, lead.evaluation_seq), lead.evaluation_seq
        return self._known

    def floor_share(self, lead: LeaderChange | None) -> float | None:
        """Return the share of the device's physical limit that a leader reaches; None where it is not known."""
        leading = self.of(lead)
        return floor_share(leading.timings) if leading else None


def read_account(store: Store) -> RunAccount:
    """Return the account of a run as its store has it now."""
    follower = RunFollower(store)
    follower.advance()
    return follower.account


def unfinished_lead(store: Store, account: RunAccount) -> LeaderChange | None:
    """Return the lead of a kernel that was measured, but not yet to the end of its step; None without one.

    A session that is ended leaves such steps to the next one; the account has their results from then on.
    """
    last = store.curve()[-1:] if store.open_leases() else []
    led = account.lead.fitness.value if account.lead else float("-inf")
    return next((each for each in last if each.fitness.value > led and each.program_hash not in account.barred), None)


def _axes_of(config: str) -> dict[str, Axes]:
    """Return the edges of the niches, by island and descriptor; nothing for a config of another release."""
    try:
        islands = (yaml.safe_load(config) or {}).get("islands", ())
        axes = {str(each["name"]): each.get("niches", {}).get("axes", {}) for each in islands}
        return {name: {axis: tuple(map(float, edges)) for axis, edges in given.items()} for name, given in axes.items()}
    except (yaml.YAMLError, TypeError, KeyError, ValueError, AttributeError):
        return {}
