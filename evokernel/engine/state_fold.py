"""Fold of committed facts into the state of a search: replaying the store gives the state the live run had."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from archive.account import BannedProgram, EndedStep, RunAccount, judged_result, measured_program, populations_of
from archive.file.records import NoCandidate
from archive.grid import GridArchive
from archive.hidden_checks import CHECK
from archive.journal import EmptyStep, EvaluationEntry, Fact, InboxEntry, InsightEntry, ResultEntry
from archive.verdict_filter import VerdictFilter
from evokernel.engine.inbox import (
    LOOK,
    Submission,
    read_answer,
    read_foreign,
    read_insight,
    read_look,
    read_source,
    read_text,
)
from evokernel.engine.state import SearchState
from evokernel.protocols import Language
from evokernel.records.candidate import Proposal
from evokernel.records.evaluation import Evaluation, Fidelity, Status
from evokernel.records.events import Notice
from evokernel.records.fitness import elite_of
from evokernel.records.hidden_check import HiddenCheck
from evokernel.records.leader import LeaderChange
from evokernel.records.llm import Insight
from evokernel.records.step import StepResult
from islands.archipelago import EVERYWHERE, Archipelago
from islands.history import History
from islands.island import Island


class StateFold:
    """Applies facts to the state of a search, live and in a replay alike."""

    def __init__(self, archipelago: Archipelago, language: Language) -> None:
        self.archipelago = archipelago
        axes = {name: axes_of(island) for name, island in archipelago.islands.items()}
        self.state = SearchState(archipelago.fresh(), RunAccount(populations=populations_of(axes)))
        self.verdict_filter = VerdictFilter()
        """Set before facts of a store are replayed."""
        self._language = language

    def anew(self, verdict_filter: VerdictFilter) -> "StateFold":
        """Return a fold with a fresh state and another filter of verdicts."""
        fold = StateFold(self.archipelago, self._language)
        fold.verdict_filter = verdict_filter
        return fold

    @property
    def history(self) -> History:
        """The history of the archipelago: everything that was tried."""
        return self.state.archipelago.history

    def pending(self, proposal: Proposal) -> None:
        """Note a stored proposal that waits for its evaluation."""
        self.history.propose(proposal)

    def replay(self, facts: Iterable[Fact]) -> None:
        """Apply committed facts, in seq order.

        A fork may bring results of another task or device along. Candidates of such results count as handed in, and are
        judged anew; they count for no plateau.
        """
        for fact in facts:
            self.state.seq = fact.seq
            match fact:
                case ResultEntry() if self.verdict_filter.foreign(fact):
                    self.state.injected[fact.proposal.candidate.id] = Submission(fact.proposal.candidate)
                case ResultEntry():
                    self.apply_result(fact)
                case EmptyStep(no_candidate=no_candidate):
                    self.apply_no_candidate(fact.seq, no_candidate)
                case EvaluationEntry(evaluation=evaluation) if not self.verdict_filter.foreign(fact):
                    self.apply_evaluation(fact.seq, evaluation)
                case InsightEntry(no_candidate=no_candidate, insight=insight):
                    self.apply_no_candidate(fact.seq, no_candidate, insight=insight)
                case InboxEntry():
                    self.apply_inbox(fact)

    def apply_result(self, result: ResultEntry) -> tuple[LeaderChange | None, list[Notice]]:
        """Apply a judged proposal; return the change of the leader and the notes for people."""
        proposal, program = result.proposal, result.program_hash
        self.state.seq = result.seq
        self.state.injected.pop(proposal.candidate.id, None)
        outdated = self.verdict_filter.outdated(result.evaluation)
        change = self.state.account.apply(replace(judged_result(result), outdated=outdated))
        evaluation = self.verdict_filter.current(result.evaluation)
        outcome = StepResult(
            seq=result.seq,
            proposal=proposal,
            step=proposal.step,
            island=proposal.island,
            operator=proposal.operator,
            parents=proposal.parents,
            evaluation=evaluation,
            program_hash=program,
            skeleton=result.skeleton,
            elite=elite_of(
                proposal.candidate, evaluation, seq=result.seq, program_hash=program, skeleton=result.skeleton
            ),
            failed=result.failed,
        )
        return change, self.archipelago.tell(outcome, self.state.archipelago)

    def apply_no_candidate(
        self, seq: int, no_candidate: NoCandidate, *, insight: Insight | None = None
    ) -> list[Notice]:
        """Apply a step without a candidate: its operator had none, or gave an insight."""
        self.state.seq = seq
        self.state.account.apply(EndedStep(no_candidate.island))
        outcome = StepResult(
            seq=seq,
            proposal=None,
            step=no_candidate.step,
            island=no_candidate.island,
            operator=no_candidate.operator,
            parents=no_candidate.parents,
            evaluation=None,
            exhausted=no_candidate.exhausted,
            insight=insight,
            usage=no_candidate.usage,
            failed=no_candidate.failed,
        )
        return self.archipelago.tell(outcome, self.state.archipelago)

    def apply_inbox(self, entry: InboxEntry) -> list[Notice]:
        """Apply an entry of the inbox and return notes on it.

        Kinds: `source` (judged like any proposal), `foreign` (in another language, for prompts), `hint`, `pin`,
        `unpin`, `ban`, `insight`, `answer`, a reply that gets a step of its own, and the engine's own `hidden_check`.
        """
        self.state.seq = entry.seq
        by = f" by {entry.author}" if entry.author else ""
        payload = entry.payload if isinstance(entry.payload, dict) else {}
        try:
            if entry.kind == LOOK:
                step, name, seconds = read_look(payload)  # an agent had a kernel judged that it has not handed in
                self.history.look(step, agent=entry.author, candidate=name, seconds=seconds)
                return []
            if entry.kind == CHECK:
                self.history.checks.append(HiddenCheck.from_message(payload))
                return []
            if entry.kind == "answer":
                self.state.answers[entry.id] = read_answer(entry.id, payload)
                return []
            return [Notice(self._apply_entry(entry.kind, payload, seq=entry.seq) + by)]
        except (ValueError, OverflowError) as error:
            return [Notice(f"inbox entry {entry.id} of kind {entry.kind!r} was left alone: {error}")]

    def _apply_entry(self, kind: str, payload: Mapping[str, Any], *, seq: int) -> str:
        match kind:
            case "source":
                handed_in = read_source(payload, language=self._language.name)
                name = handed_in.candidate.id
                if name in self.history.proposed:
                    raise ValueError(f"{name} is known already")
                self.state.injected[name] = handed_in
                return f"{name} was handed in"
            case "foreign":
                foreign, words = read_foreign(payload, language=self._language.name)
                self.history.hand_in_foreign(foreign, words)
                return f"{foreign.id} in {foreign.language} is at hand for prompts"
            case "hint":
                text = read_text(payload, "text")
                island = str(payload.get("island") or EVERYWHERE)
                self.history.hint(text, island=island, by_agent=bool(payload.get("agent")))
                return f"hint: {text}"
            case "pin" | "unpin" | "ban":
                return self._mark(kind, read_text(payload, "candidate"))
            case "insight":
                insight, island = read_insight(payload)
                self.history.insights.add(seq, insight, island=island)
                return f"{insight.kind}: {insight.title}"
        raise ValueError("this kind is not known")

    def _mark(self, kind: str, name: str) -> str:
        elite = self.history.elites.get(name)
        if elite is None:
            raise ValueError(f"{name} is not a correct kernel of this run, or was dropped as too far behind")
        self.history.pinned = [pinned for pinned in self.history.pinned if pinned != name]
        match kind:
            case "pin":
                self.history.pinned.append(name)
                return f"{name} is pinned: a parent more often than others"
            case "unpin":
                return f"{name} is pinned no more"
        self.state.archipelago.bar(elite.program_hash)
        self.state.account.apply(BannedProgram(elite.program_hash))
        return f"{name} is banned: never a parent again"

    def next_injected(self) -> Submission | None:
        """Return a source that was handed in and not proposed yet, or None."""
        waiting = (each for name, each in self.state.injected.items() if name not in self.history.proposed)
        return next(waiting, None)

    def apply_evaluation(self, seq: int, evaluation: Evaluation) -> None:
        """Apply an evaluation outside any step.

        A program that fails its final measurement, or a hidden check that was added after it was judged, is barred.
        """
        if not self.verdict_filter.outdated(evaluation):
            self.state.account.apply(measured_program(evaluation, seq, program_hash=evaluation.key.program_hash))
        refuted = not evaluation.ok and evaluation.status is not Status.HARNESS_ERROR
        if refuted and evaluation.key.budget is not Fidelity.PRECISE:  # a hidden check that was added later, or a final
            self.state.archipelago.bar(evaluation.key.program_hash)


def axes_of(island: Island) -> dict[str, tuple[float, ...]]:
    """Return the edges of an island's niches, by descriptor; none where its archive is of another kind."""
    return island.archive.axes if isinstance(island.archive, GridArchive) else {}
