"""Turns: a prompt, the reply to it, and the judged candidate that it became."""

from collections.abc import Sequence
from dataclasses import dataclass

from archive.calls import Calls
from archive.store import Store
from evokernel.records.evaluation import Status
from evokernel.records.llm import CallStatus, Message, StoredCall
from evokernel.records.timing import combined_speedup
from evokernel.report.rows import CandidateRow, read_judged

CORRECT_SCORE = 0.3
DISCOUNT = 0.4


@dataclass(frozen=True, slots=True)
class TrainingTurn:
    """One reply of a model that became a candidate."""

    call: StoredCall
    reply: str
    judged: CandidateRow
    gain: float | None
    """Speed-up over the first parent in the search; None where either was not timed."""

    @property
    def right(self) -> bool:
        """True where the candidate is right in all its evaluations."""
        return self.judged.status is Status.OK

    @property
    def score(self) -> float:
        """0.3 for a right kernel, plus its speed-up in the search; 0 for a wrong one.

        As in "Kevin: Multi-Turn RL for Generating CUDA Kernels" (Baronio et al., 2025), over the fastest baseline.
        """
        search = self.judged.verdicts.search
        return CORRECT_SCORE + combined_speedup(search.timings).value if self.right and search else 0.0


def read_turns(store: Store, *, until: int | None = None) -> list[TrainingTurn]:
    """Return the turns of a run by step; with `until`, as they were known at that seq.

    Left out are steps whose reply was cut off (the candidate is then made of two replies), candidates that another
    step had proposed before, those that a fork copied, and those without a verdict by a fault of ours.
    """
    by_id = {each.candidate_id: each for each in read_judged(store, until=until)}
    judged = {each.result.step: each for each in by_id.values() if not each.result.origin}
    turns = []
    for step, call in sorted(_calls(store.calls).items()):
        found = judged.get(step)
        if found is not None and call.result is not None and found.status is not Status.HARNESS_ERROR:
            turns.append(TrainingTurn(call, call.result.text, found, _gain(found, by_id)))
    return turns


def stored_prompts(calls: Calls) -> dict[int, tuple[Message, ...]]:
    """Return the messages that a model was first asked with at each step that it answered."""
    return {
        call.call.origin.step: call.call.messages
        for call in calls.all()
        if call.result is not None and call.call.ordinal == 0
    }


def discounted(scores: Sequence[float], discount: float) -> list[float]:
    """Return for each turn its score plus all later ones, discounted by the number of turns between."""
    returns: list[float] = []
    for score in reversed(scores):
        returns.append(score + discount * (returns[-1] if returns else 0.0))
    return returns[::-1]


def _calls(calls: Calls) -> dict[int, StoredCall]:
    """Return the call of each step that was answered in one whole reply: the newest one that could be used."""
    first: dict[int, StoredCall] = {}
    continued: set[int] = set()
    for call in calls.all():
        if call.result is None or call.result.status not in (CallStatus.OK, CallStatus.TRUNCATED):
            continue
        if call.call.ordinal:
            continued.add(call.call.origin.step)
        else:
            first[call.call.origin.step] = call
    whole = {step: call for step, call in first.items() if call.result and call.result.status is CallStatus.OK}
    return {step: call for step, call in whole.items() if step not in continued}


def _gain(judged: CandidateRow, by_id: dict[str, CandidateRow]) -> float | None:
    parents = judged.result.proposal.parents
    before = by_id.get(parents[0]) if parents else None
    if before is None or judged.verdicts.fitness is None or before.verdicts.fitness is None:
        return None
    searches = judged.verdicts.search, before.verdicts.search
    ours, theirs = (combined_speedup(each.timings).value if each else 0.0 for each in searches)
    return ours / theirs if ours and theirs else None
