"""End of a slice: what became of its session, and what that means for its entry."""

import signal
from dataclasses import dataclass, replace

from evokernel.config.session_budget import SESSION_LIMIT
from evokernel.errors import TRY_AGAIN_EXIT
from evokernel.queue.command import SessionLimits
from evokernel.queue.records import EntryState, QueueEntry

STOPPED = {128 + number for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
"""Exit codes of a session that a signal has ended in order."""
CONFIG_EXIT = 2
REASON_CHARACTERS = 300
_ERROR = "Error: "


@dataclass(frozen=True, slots=True)
class SliceExit:
    """End of a session's process."""

    code: int | None
    """Exit code, negative for a signal; None where nobody saw it end, or where it did not begin."""
    asked: bool = False
    """The queue has asked for the end."""
    said: str = ""
    """End of its output, or why it did not begin."""
    device_lost: bool = False
    """It needs a GPU, and none is visible any more."""


def entry_after(
    entry: QueueEntry, ending: SliceExit, told: SessionLimits | None, *, stop: str, results: int
) -> tuple[QueueEntry, str]:
    """Return an entry after a slice, and the outcome of the slice.

    Only the config's faults end an entry. Other faults, and slices without a result, count up.

    Args:
        entry: before the end.
        told: of its command; None where an earlier queue had started it.
        stop: the store's reason for the last orderly end.
        results: steps that ended in the slice.
    """
    barren = 0 if results else entry.faults + 1
    if ending.code == 0 and told is not None:
        outcome = _end_by(stop)
        if outcome is None:
            return replace(entry, state=EntryState.DONE, reason=stop, faults=0), "done"
        if outcome == "dollars" and told.all_dollars:
            return replace(entry, state=EntryState.DONE, reason=f"of its night: {stop}", faults=0), "done"
        return replace(entry, reason="", faults=barren), "used"
    if ending.code is None and not ending.said:
        return replace(entry, reason="", faults=barren), "interrupted"
    if ending.asked or ending.code == 0 or ending.code in STOPPED:
        return replace(entry, reason="", faults=barren), "stopped"
    reason = _reason(ending)
    if ending.code == CONFIG_EXIT and not ending.device_lost:
        return replace(entry, state=EntryState.FAILED, reason=reason), "failed"
    return replace(entry, reason=reason, faults=entry.faults + 1), "fault"


def _end_by(stop: str) -> str | None:
    """Return the limit of the session alone that ended it, `hours` or `dollars`; None for another reason."""
    if not stop.startswith(SESSION_LIMIT):
        return None
    return "dollars" if stop.startswith(f"{SESSION_LIMIT} of $") else "hours"


def _reason(ending: SliceExit) -> str:
    """Return one line on a fault: the error that the session told, or how it ended."""
    told = ending.said.rpartition(_ERROR)[2] if _ERROR in ending.said else ""
    if not told and ending.said.strip():
        told = ending.said.strip().splitlines()[-1]
    lost = "no GPU is visible any more" if ending.device_lost else ""
    if ending.code is None or ending.code in (CONFIG_EXIT, TRY_AGAIN_EXIT):
        how = ""
    else:
        how = f"ended by signal {-ending.code}" if ending.code < 0 else f"exit code {ending.code}"
    return "; ".join(filter(None, (lost, how, " ".join(told.split())[:REASON_CHARACTERS])))
