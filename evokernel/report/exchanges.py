"""Migrations and restarts of islands, with what the run had spent by then."""

from collections.abc import Mapping
from dataclasses import dataclass

from archive.store import Store
from archive.views.candidate_tables import result_seqs
from archive.views.progress_axis import BYS, By, ProgressAxis
from evokernel.records.remarks import RemarkKind

SHOWN = 2000
"""At most so many: a page with more ticks shows nothing more."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One migration, or one island that started again."""

    kind: RemarkKind
    """`MIGRATION` or `RESET`."""
    text: str
    """One line for people."""
    step: int
    """The step whose result brought it about."""
    spent: Mapping[By, float]
    """What the run had spent by then, by each measure."""


def exchanges_of(store: Store) -> list[Exchange]:
    """Return the newest exchanges, `SHOWN` at the most, oldest first; none in a store without remarks."""
    remarks = store.remarks.all((RemarkKind.MIGRATION, RemarkKind.RESET))
    if not remarks:
        return []  # neither of the two below is then read from the store
    seqs, progress = result_seqs(store), ProgressAxis(store)
    found = [(remark, remark.step, seqs[remark.step]) for remark in remarks if remark.step in seqs]
    return [
        Exchange(remark.kind, remark.text, step, {by: progress.at(seq, by) for by in BYS})
        for remark, step, seq in found[-SHOWN:]
    ]
