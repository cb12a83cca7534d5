"""Schedule of steps: replies paid for before a kill, entries handed in, then steps of the search's own."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace

from archive.store import Store
from evokernel.engine.context import selection_again
from evokernel.engine.inbox import Submission
from evokernel.engine.model_gate import ModelGate, record_answer
from evokernel.engine.state_fold import StateFold
from evokernel.llm.recordings import RecordedReply
from evokernel.protocols import asks_model
from evokernel.records.candidate import Proposal
from evokernel.records.events import Notice
from evokernel.records.fitness import Elite
from evokernel.records.llm import Origin
from evokernel.records.step import Selection


class StepScheduler:
    """Hands out steps, each once: first the numbers that an interrupted session left out, then new ones.

    Args:
        store: with the steps and calls of earlier sessions.
        fold: with the state of the search, replayed.
        gate: decides whether a model may be asked.
        notify: takes notes on answers that are left alone.
        handed_in_only: hand out nothing but what others have handed in.
        replayed: origins of a recorded run, by step.
    """

    def __init__(
        self,
        store: Store,
        fold: StateFold,
        gate: ModelGate,
        *,
        notify: Callable[[Notice], None],
        handed_in_only: bool = False,
        replayed: Mapping[int, RecordedReply] | None = None,
    ) -> None:
        self._store = store
        self._calls = store.calls
        self._fold = fold
        self._gate = gate
        self._notify = notify
        self._handed_in_only = handed_in_only
        self._replayed = replayed or {}
        self._steps = deque([*store.missing_steps(), store.next_step()])
        self._interrupted = {origin.step: origin for origin in store.calls.interrupted()}
        self._answered_entries = store.calls.answers()

    def next(self, *, idle: bool) -> Selection | Proposal | None:
        """Return the next work: a selection for its operator, a proposal to be judged, or None where there is none.

        Unless the search is `idle`, a step of a recorded run waits for its parents.
        """
        step = self._steps[0]
        found = self._resumed(step) or self._answered(step) or self._handed_in(step) or self._repeated(step)
        if found is None and (idle or step not in self._replayed):
            found = self._asked(step)
        if found is not None:
            self._steps.popleft()
            if not self._steps:
                self._steps.append(step + 1)
        return found

    def _resumed(self, step: int) -> Selection | None:
        """Return the selection of a step that an earlier session has paid a reply for."""
        origin = self._interrupted.pop(step, None)
        selection = self._taken_up(origin) if origin is not None else None
        asked = self._calls.of_step(step, 0)
        return replace(selection, model=asked.call.model) if selection and asked else selection

    def _taken_up(self, origin: Origin) -> Selection | None:
        return selection_again(origin, self._fold, recall=self._recall)

    def _recall(self, name: str) -> Elite | None:
        result = self._store.result_of(name)
        if result is None:
            return None
        now = replace(result, evaluation=self._fold.verdict_filter.current(result.evaluation))
        return now.elite() if now.evaluation.ok else None

    def _answered(self, step: int) -> Selection | None:
        """Give a step to the next answer from elsewhere: its reply is stored like a model's."""
        for entry, answer in self._fold.state.answers.items():
            if entry in self._answered_entries:
                continue
            self._answered_entries.add(entry)
            operator = self._fold.archipelago.operators.get(answer.operator)
            selection = self._taken_up(answer.origin(step))
            if operator is not None and asks_model(operator) and selection is not None:
                record_answer(self._calls, answer, step, role=operator.role)
                return selection
            self._notify(
                Notice(f"answer {entry} was left alone: what {answer.operator} was asked about is not known here")
            )
        return None

    def _repeated(self, step: int) -> Selection | None:
        """Return the recorded selection of this step once its insights are known here."""
        recorded = self._replayed.get(step)
        if recorded is None or not self._gate.room:
            return None
        by_title = {known.insight.title: seq for seq, known in self._fold.history.insights.all.items()}
        if any(title not in by_title for title in recorded.insights):
            return None
        insights = tuple(by_title[title] for title in recorded.insights)
        origin = Origin(step, recorded.island, recorded.operator, recorded.parents, insights)
        return self._taken_up(origin)

    def _handed_in(self, step: int) -> Proposal | None:
        handed_in = self._fold.next_injected()
        return None if handed_in is None else self._proposal(handed_in, step)

    def _asked(self, step: int) -> Selection | None:
        if self._handed_in_only:
            return None
        gate = self._gate
        return self._fold.archipelago.selector.select(
            step,
            self._fold.state.archipelago,
            models=gate.room,
            may_ask=gate.may_ask,
            at_hand=gate.at_hand,
            running=tuple(gate.running),
        )

    def _proposal(self, handed_in: Submission, step: int) -> Proposal:
        """Return the proposal of a source that was handed in, with the lineage that the run knows."""
        history = self._fold.history
        return Proposal(
            candidate=handed_in.candidate,
            step=step,
            island=handed_in.island,
            operator=handed_in.operator,
            asked_seq=self._fold.state.seq,
            parents=tuple(name for name in handed_in.parents if name in history.proposed),
            inspirations=tuple(name for name in handed_in.inspirations if name in history.proposed),
            rationale=handed_in.rationale,
            predicted_speedup=handed_in.predicted_speedup,
            usage=handed_in.usage,
            insights=tuple(seq for seq in handed_in.insights if seq in history.insights.all),
        )
