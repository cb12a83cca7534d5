"""Progress of a run at each fact: in evaluations, in hours of searching, in dollars for models."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Literal, get_args

from archive.calls import COST_USD, MADE_HERE, WITHOUT_CALLS
from archive.store import Store
from evokernel.errors import StoreError

By = Literal["evaluations", "hours", "dollars"]
BYS: tuple[By, ...] = get_args(By)


class ProgressAxis:
    """Progress by seq. It reads the store once; pauses between sessions do not count."""

    def __init__(self, store: Store) -> None:
        self._evaluations = [row[0] for row in store.database.rows(_EVALUATIONS)]
        spans = store.database.rows("SELECT id, started, seconds FROM sessions ORDER BY id")
        before = accumulate((row["seconds"] for row in spans), initial=0.0)
        self._sessions = {
            row["id"]: (row["started"], row["seconds"], sum_s) for row, sum_s in zip(spans, before, strict=False)
        }
        journal = store.database.rows("SELECT seq, at, session FROM journal ORDER BY seq")
        self._journal = {row["seq"]: (row["at"], row["session"]) for row in journal}
        paid = [(row["at"], row["cost"]) for row in store.database.rows(_PAID)]
        self._paid_at = [at for at, _ in paid]
        self._paid_usd = [0.0, *accumulate(cost for _, cost in paid)]

    def at(self, seq: int, by: By) -> float:
        """Return the progress of the run at a fact.

        Raises `StoreError` if there is no such fact, or no measure of that name.
        """
        if by not in BYS:
            raise StoreError(f"progress is measured by {', '.join(BYS)}, not by {by!r}")
        if seq not in self._journal:
            raise StoreError(f"the store has no fact {seq}")
        at, session = self._journal[seq]
        if by == "evaluations":
            return float(bisect_right(self._evaluations, seq))
        if by == "dollars":
            return float(self._paid_usd[bisect_right(self._paid_at, at)])
        return self._seconds(at, session) / 3600

    def all(self, seqs: Sequence[int], by: By) -> list[float]:
        """Return the progress of the run at each of several facts. Raises `StoreError`."""
        return [self.at(seq, by) for seq in seqs]

    def _seconds(self, at: float, session: int | None) -> float:
        if session not in self._sessions:
            return 0.0  # copies of a fork cost nothing here
        started, lasted, before = self._sessions[session]
        return float(before + min(max(at - started, 0.0), lasted))


_EVALUATIONS = (  # candidates judged, as budgets count them: what a fork copied is none
    "SELECT r.seq FROM results r JOIN proposals p ON p.step = r.step "
    "WHERE r.evaluation IS NOT NULL AND p.origin = '' ORDER BY r.seq"
)
_PAID = (
    f"SELECT at, {COST_USD} AS cost FROM calls WHERE {MADE_HERE} "
    f"UNION ALL SELECT at, cost_usd {WITHOUT_CALLS} ORDER BY 1"
)
