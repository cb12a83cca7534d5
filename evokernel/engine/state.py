"""The state of a search: a fold over committed facts. A replay of the store gives the state the live run had."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archive.account import BannedProgram, EndedStep, RunAccount, account_fact, measured_program, populations_of
from archive.grid import GridArchive
from archive.journal import EmptyStep, EvaluationEntry, Fact, InboxEntry, InsightEntry, ResultEntry
from archive.records import NoCandidate
from archive.store import Store
from evokernel.config.run import RunConfig
from evokernel.engine.inbox import AnsweredPrompt, Submission, read_answer, read_insight, read_source, read_text
from evokernel.languages.constrained import in_words
from evokernel.protocols import Language
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Evaluation, Fidelity, Status
from evokernel.records.fitness import Elite, elite_of
from evokernel.records.leader import LeaderChange
from evokernel.records.llm import Insight, Origin
from evokernel.records.step import Context, Selection, StepResult
from evokernel.source.tunables import skeleton_hash
from evokernel.task import Task
from islands.archipelago import EVERYWHERE, Archipelago
from islands.island import Island

REMEMBERED = 1024
"""Candidates whose hashes are kept: more than are ever in flight."""


@dataclass(frozen=True, slots=True)
class SearchSetting:
    """What every operator of a run sees, whatever the step: `device` is its name, `guide` the language's, and
    `environment` says what compiles."""

    task: Task
    config: RunConfig
    device: str
    environment: str
    device_sheet: Mapping[str, float]
    guide: str
    foreign: tuple[Candidate, ...] = ()


@dataclass(frozen=True, slots=True)
class Hashes:
    """What decides whether an evaluation can be used again, and what a candidate shares with its tuned siblings."""

    program: str
    skeleton: str


class SearchState:
    """Islands and the account of the run, advanced together by the same facts; `seq` is the last one taken in."""

    def __init__(self, archipelago: Archipelago, language: Language) -> None:
        self.archipelago = archipelago
        axes = {name: axes_of(island) for name, island in archipelago.islands.items()}
        self.standing = RunAccount(populations=populations_of(axes))
        self.seq = 0
        self._language = language
        self.answers: dict[int, AnsweredPrompt] = {}
        """Replies to prompts that were answered elsewhere, by number in the inbox."""
        self.injected: dict[str, Submission] = {}
        """What was handed in and is not judged yet, by id of the candidate."""
        self._hashes: dict[str, Hashes] = {}

    def hashes(self, candidate: Candidate) -> Hashes:
        """Return the hashes of a candidate; those of the latest ones are remembered."""
        found = self._hashes.get(candidate.id)
        if found is None:
            found = Hashes(self._language.program_hash(candidate.source), skeleton_hash(candidate.source))
            self._hashes[candidate.id] = found
            while len(self._hashes) > REMEMBERED:
                del self._hashes[next(iter(self._hashes))]
        return found

    def replay(self, facts: Iterable[Fact], *, task_hash: str | None = None, device: str | None = None) -> None:
        """Apply committed facts, in seq order.

        A fork may bring results of another task or device along: with `task_hash` and `device` given, the candidates
        of such results are taken as handed in, to be judged anew. What it brought counts for no plateau.
        """

        def elsewhere(evaluation: Evaluation) -> bool:
            return task_hash not in (None, evaluation.key.task_hash) or device not in (None, evaluation.key.device)

        for fact in facts:
            self.seq = fact.seq
            match fact:
                case ResultEntry() if elsewhere(fact.evaluation):
                    self.injected[fact.proposal.candidate.id] = Submission(fact.proposal.candidate)
                case ResultEntry():
                    self.apply_result(fact)
                case EmptyStep(barren=barren):
                    self.apply_barren(fact.seq, barren)
                case EvaluationEntry(evaluation=evaluation) if not elsewhere(evaluation):
                    self.apply_evaluation(fact.seq, evaluation)
                case InsightEntry(barren=barren, insight=insight):
                    self.apply_insight(fact.seq, barren, insight)
                case InboxEntry():
                    self.apply_inbox(fact)

    def apply_result(self, result: ResultEntry) -> tuple[LeaderChange | None, list[str]]:
        """Take in a judged proposal; return the change of the leader it made, and what a person may want to know."""
        proposal, evaluation, program = result.proposal, result.evaluation, result.program_hash
        self.seq = result.seq
        self.injected.pop(proposal.candidate.id, None)
        change = self.standing.apply(account_fact(result))
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
        )
        return change, self.archipelago.tell(outcome)

    def apply_barren(self, seq: int, barren: NoCandidate) -> list[str]:
        """Take in a step whose operator had nothing to offer."""
        self.seq = seq
        self.standing.apply(EndedStep(barren.island))
        return self.archipelago.tell(_without_candidate(seq, barren, None))

    def apply_insight(self, seq: int, barren: NoCandidate, insight: Insight) -> list[str]:
        """Take in a step that ended in words instead of a candidate."""
        self.seq = seq
        self.standing.apply(EndedStep(barren.island))
        return self.archipelago.tell(_without_candidate(seq, barren, insight))

    def apply_inbox(self, entry: InboxEntry) -> list[str]:
        """Take in what somebody handed to the engine, and say what became of it.

        Kinds: `source` (judged like any proposal), `hint`, `pin`, `unpin`, `ban`, `insight`, and `answer`, a reply
        that a step is given to.
        """
        self.seq = entry.seq
        by = f" by {entry.author}" if entry.author else ""
        payload = entry.payload if isinstance(entry.payload, dict) else {}
        try:
            if entry.kind == "answer":
                self.answers[entry.id] = read_answer(entry.id, payload)
                return []
            return [self._take_in(entry.kind, payload, seq=entry.seq) + by]
        except (ValueError, OverflowError) as error:
            return [f"inbox entry {entry.id} of kind {entry.kind!r} was left alone: {error}"]

    def _take_in(self, kind: str, payload: Mapping[str, Any], *, seq: int) -> str:
        memory = self.archipelago.memory
        match kind:
            case "source":
                handed_in = read_source(payload, language=self._language.name)
                name = handed_in.candidate.id
                if name in memory.known:
                    raise ValueError(f"{name} is known already")
                self.injected[name] = handed_in
                return f"{name} was handed in"
            case "hint":
                text = read_text(payload, "text")
                memory.hint(text, island=str(payload.get("island") or EVERYWHERE))
                return f"hint: {text}"
            case "pin" | "unpin" | "ban":
                return self._mark(kind, read_text(payload, "candidate"))
            case "insight":
                insight, island = read_insight(payload)
                memory.insights.add(seq, insight, island=island)
                return f"{insight.kind}: {insight.title}"
        raise ValueError("this kind is not known")

    def _mark(self, kind: str, name: str) -> str:
        memory = self.archipelago.memory
        elite = memory.elites.get(name)
        if elite is None:
            raise ValueError(f"{name} is no correct kernel of this run, or one that it has let go of as too far behind")
        memory.pinned = [pinned for pinned in memory.pinned if pinned != name]
        match kind:
            case "pin":
                memory.pinned.append(name)
                return f"{name} is pinned: a parent more often than others"
            case "unpin":
                return f"{name} is pinned no more"
        self.archipelago.bar(elite.program_hash)
        self.standing.apply(BannedProgram(elite.program_hash))
        return f"{name} is banned: never a parent again"

    def next_injected(self) -> Submission | None:
        """Return something handed in that was not proposed yet, or None."""
        waiting = (each for name, each in self.injected.items() if name not in self.archipelago.memory.known)
        return next(waiting, None)

    def apply_evaluation(self, seq: int, evaluation: Evaluation) -> None:
        """Take in an evaluation outside any step: a program that fails its final measurement is out of the search."""
        self.standing.apply(measured_program(evaluation, seq, program_hash=evaluation.key.program_hash))
        refuted = not evaluation.ok and evaluation.status is not Status.HARNESS_ERROR
        if refuted and evaluation.key.budget is Fidelity.FINAL:
            self.archipelago.bar(evaluation.key.program_hash)

    def context(self, selection: Selection, surroundings: SearchSetting) -> Context:
        """Return what the operator of a step may see."""
        memory, config, parents = self.archipelago.memory, surroundings.config, selection.parents
        shown = tuple(elite.candidate.id for elite in parents)
        thinks = self.archipelago.thinks(selection.operator)
        inspirations = self.archipelago.inspirations(selection) if thinks else ()
        broken = memory.broken.get(selection.broken)
        told = {name: memory.verdicts[name] for name in shown if name in memory.verdicts}
        insights = tuple(memory.insights.all[seq] for seq in selection.insights if seq in memory.insights.all)
        others = [*(e.candidate.id for e in inspirations), *(known.insight.candidate for known in insights)]
        told |= {name: memory.verdicts[name] for name in others if name in memory.verdicts}
        return Context(
            step=selection.step,
            seed=config.seed,
            island=selection.island,
            task=surroundings.task,
            language=config.language,
            threads=config.threads,
            parents=parents,
            siblings=tuple(memory.siblings.get(parents[0].skeleton, ())) if parents else (),
            known=memory.known,
            tried=frozenset(memory.tried.get(shown[0], ())) if parents else frozenset(),
            credit=memory.credit,
            device_sheet=surroundings.device_sheet,
            selection=selection,
            device=surroundings.device,
            environment=surroundings.environment,
            guide=surroundings.guide,
            verdicts=told | ({broken.candidate.id: broken.evaluation} if broken else {}),
            inspirations=inspirations,
            broken=broken,
            failures=memory.broken.warnings(shown) if thinks else (),
            attempts=tuple(memory.attempts) if thinks else (),
            best=memory.best,
            insights=insights,
            hints=memory.hints_for(selection.island),
            constraints=in_words(config.constraints),
            foreign=surroundings.foreign,
        )

    def taken_up(self, origin: Origin, *, recall: Callable[[str], Elite | None]) -> Selection | None:
        """Return what a step was about that an earlier session has paid a reply for; None where that has gone.

        `recall` finds a kernel that is no longer at hand because it was left behind.
        """
        memory = self.archipelago.memory
        if not self.archipelago.thinks(origin.operator) or origin.island not in self.archipelago.islands:
            return None
        known = [name for name in origin.parents if name in memory.known]
        found = dict.fromkeys(origin.parents) | {name: memory.elites.get(name) or recall(name) for name in known}
        elites = [each for each in found.values() if each is not None and each.program_hash not in memory.barred]
        others = [name for name, each in found.items() if each not in elites]
        if len(others) > 1 or any(memory.broken.get(name) is None for name in others):
            return None
        return Selection(
            origin.step, origin.island, origin.operator, tuple(elites), "".join(others), insights=origin.insights
        )

    def fingerprint(self) -> str:
        """Return a hash over the whole state."""
        return self.archipelago.fingerprint()


def axes_of(island: Island) -> dict[str, tuple[float, ...]]:
    """Return the edges of an island's niches, by descriptor; none where its archive is of another kind."""
    return island.archive.axes if isinstance(island.archive, GridArchive) else {}


def _without_candidate(seq: int, barren: NoCandidate, insight: Insight | None) -> StepResult:
    return StepResult(
        seq=seq,
        proposal=None,
        step=barren.step,
        island=barren.island,
        operator=barren.operator,
        parents=barren.parents,
        evaluation=None,
        exhausted=barren.exhausted,
        insight=insight,
        usage=barren.usage,
    )


def replay_store(path: Path, state: SearchState) -> SearchState:
    """Fold the facts of a store file into a fresh state and return it."""
    with Store.open(path, write=False) as store:
        state.replay(store.facts())
    return state
