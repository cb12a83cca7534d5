"""The table of what happened in a run since a moment."""

import time
from collections import Counter
from datetime import datetime

from evokernel.cli.display.tables import effort, sheet
from evokernel.cli.display.text import duration, one_line, times
from evokernel.cli.display.word_table import WordTable
from evokernel.config.session_budget import SESSION_LIMIT
from evokernel.records.remarks import RemarkKind
from evokernel.records.run import NOTHING_LEFT
from evokernel.report.recent import RecentEvents
from evokernel.report.status import RunState, RunStatus
from evokernel.report.verdicts import torch_words

SHOWN = 3
"""Remarks that are shown in full, the latest."""
_NOUNS = {
    RemarkKind.FAULT: ("fault", "faults"),
    RemarkKind.MODEL_REST: ("rest of a model", "rests of models"),
    RemarkKind.FINAL_REFUSED: ("winner did not hold", "winners did not hold"),
    RemarkKind.DEVICE_CHANGE: ("change of devices", "changes of devices"),
}


def recent_table(recent: RecentEvents, status: RunStatus) -> WordTable:
    """Return the events since a moment, and what to do next."""
    moment = datetime.fromtimestamp(recent.since).astimezone()
    day = "" if moment.date() == datetime.now().astimezone().date() else f"{moment:%Y-%m-%d} "
    work = recent.work
    share = f" ({work.correct / work.results:.0%} right)" if work.results else ""
    paid = effort(work.spent.calls, work.spent.tokens, work.spent.cost_usd, priced=status.priced)
    return sheet(
        {
            "since": f"{day}{moment:%H:%M}, {duration(max(0.0, time.time() - recent.since))} ago",
            "best": _best(recent),
            "judged": f"{work.results}{share}{f'; {paid}' if paid else ''}",
            "wrong": _troubles(recent),
            "next": _next(status),
        }
    )


def _best(recent: RecentEvents) -> str:
    before, now = recent.before, recent.now
    if now is None:
        return "no right kernel yet"
    if before is None or before.candidate == now.candidate:
        how = "unchanged" if before else f"by {one_line(now.operator, width=24)}"
        return f"{times(now.speedup)} in the search, {how}"
    by = f"by {one_line(now.operator, width=24)}: {one_line(now.rationale, width=120)}"
    steps = f" in {len(recent.changes)} steps, the last" if len(recent.changes) > 1 else ""
    return f"{times(before.speedup)} -> {times(now.speedup)} in the search{steps} {by}"


def _troubles(recent: RecentEvents) -> str:
    counts = Counter(each.kind for each in recent.troubles)
    heads = ", ".join(f"{number} {_NOUNS[kind][number > 1]}" for kind, number in counts.items())
    latest = [f"{datetime.fromtimestamp(each.at):%H:%M} {one_line(each.text, width=160)}" for each in recent.troubles]
    return "\n".join(filter(None, (heads, *latest[-SHOWN:])))


def _next(status: RunStatus) -> str:
    best = status.best
    slow = best is not None and best.nowhere_faster and not best.contender_leads
    if status.state is RunState.RUNNING:
        return "it is running"
    if status.state is RunState.KILLED:
        return "it was killed: `evokernel evolve` with the same config goes on"
    if "`evokernel ask`" in status.last_stop:
        return "`evokernel ask` writes the prompts that wait"
    if status.last_stop == NOTHING_LEFT:
        model = "" if status.models else "ask a model (--model), "
        take = "" if slow else ", or export"
        return f"nothing is left to try: {model}inject another seed{take}"
    if status.last_stop.startswith(("stopped", SESSION_LIMIT)):
        return "`evokernel evolve` with the same config goes on"
    if best is not None and slow:
        torch = torch_words(best.evaluation.timings)
        return f"a larger budget, or another seed (evokernel inject): what was found is slower than {torch}"
    return f"`evokernel export {status.run.path}`, or a larger budget"
