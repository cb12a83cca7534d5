"""The state of a search: a fold over committed facts. A replay of the store gives the state the live run had."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from archive.facts import BarrenStep, Fact, InboxEntry, Remeasured, Result
from archive.records import Barren
from archive.store import Store
from evokernel.candidate import Candidate, Proposal
from evokernel.config import RunConfig
from evokernel.evaluation import Budget, Evaluation, Status
from evokernel.protocols import Language
from evokernel.standing import Standing
from evokernel.steps import Context, Outcome, Selection
from evokernel.task import Task
from evokernel.tunables import skeleton_hash
from islands.archipelago import Archipelago


class State:
    """Islands and standing, advanced together by the same facts; `seq` is the last one taken in."""

    def __init__(self, archipelago: Archipelago, language: Language) -> None:
        self.archipelago = archipelago
        self.standing = Standing()
        self.seq = 0
        self._language = language
        self._injected: dict[str, Candidate] = {}

    def program_hash(self, candidate: Candidate) -> str:
        """Return the hash that decides whether an evaluation can be used again."""
        return self._language.program_hash(candidate.source)

    def replay(self, facts: Iterable[Fact], *, task_hash: str | None = None) -> None:
        """Apply committed facts, in seq order.

        A fork may bring results of another task along: with `task_hash` given, the candidates of such results are
        taken as handed in, to be judged anew.
        """
        for fact in facts:
            self.seq = fact.seq
            match fact:
                case Result() if task_hash not in (None, fact.evaluation.key.task_hash):
                    self._injected[fact.proposal.candidate.id] = fact.proposal.candidate
                case Result():
                    self.standing.copied += bool(fact.origin)
                    self.apply_result(fact.seq, fact.proposal, fact.evaluation)
                case BarrenStep(barren=barren):
                    self.apply_barren(fact.seq, barren)
                case Remeasured(evaluation=evaluation) if task_hash in (None, evaluation.key.task_hash):
                    self.apply_final(evaluation)
                case InboxEntry():
                    self.apply_inbox(fact)

    def apply_result(self, seq: int, proposal: Proposal, evaluation: Evaluation) -> tuple[bool, list[str]]:
        """Take in a judged proposal; say whether it is the best so far, and what a person may want to know."""
        self.seq = seq
        program, skeleton = self.program_hash(proposal.candidate), skeleton_hash(proposal.candidate.source)
        improved = self.standing.take(seq, proposal, evaluation, program_hash=program, skeleton=skeleton)
        outcome = Outcome(
            seq=seq,
            proposal=proposal,
            step=proposal.step,
            island=proposal.island,
            operator=proposal.operator,
            parents=proposal.parents,
            evaluation=evaluation,
            program_hash=program,
            skeleton=skeleton,
        )
        return improved, self.archipelago.tell(outcome)

    def apply_barren(self, seq: int, barren: Barren) -> list[str]:
        """Take in a step whose operator had nothing to offer."""
        self.seq = seq
        return self.archipelago.tell(
            Outcome(seq, None, barren.step, barren.island, barren.operator, barren.parents, None)
        )

    def apply_inbox(self, entry: InboxEntry) -> list[str]:
        """Take in what somebody handed to the engine: a `source` is judged like any proposal."""
        self.seq = entry.seq
        source = entry.payload.get("source") if isinstance(entry.payload, dict) else None
        if entry.kind != "source" or not isinstance(source, str):
            return [f"inbox entry {entry.id} of kind {entry.kind!r} is not understood and was left alone"]
        try:
            candidate = Candidate(source, self._language.name)
        except UnicodeEncodeError:
            return [f"inbox entry {entry.id} is not text that can be written down"]
        if candidate.id in self.archipelago.memory.known:
            return [f"{candidate.id} was handed in, and is known already"]
        self._injected[candidate.id] = candidate
        return [f"{candidate.id} was handed in{' by ' + entry.author if entry.author else ''}"]

    def next_injected(self) -> Candidate | None:
        """Return a handed-in candidate that was not proposed yet, or None."""
        waiting = (c for name, c in self._injected.items() if name not in self.archipelago.memory.known)
        return next(waiting, None)

    def apply_final(self, evaluation: Evaluation) -> None:
        """Take in a measurement made anew: a program that does not hold is out of the search."""
        refuted = not evaluation.ok and evaluation.status is not Status.HARNESS_ERROR
        if refuted and evaluation.key.budget is Budget.FINAL:
            program = evaluation.key.program_hash
            self.archipelago.bar(program)
            self.standing.demote(program, self.archipelago.memory.best)

    def context(
        self, selection: Selection, *, task: Task, config: RunConfig, device_sheet: Mapping[str, float]
    ) -> Context:
        """Return what the operator of a step may see."""
        memory, first = self.archipelago.memory, selection.parents[0]
        return Context(
            step=selection.step,
            seed=config.seed,
            island=selection.island,
            task=task,
            language=config.language,
            threads=config.threads,
            parents=selection.parents,
            siblings=tuple(memory.siblings[first.skeleton]),
            known=frozenset(memory.known),
            tried=frozenset(memory.tried[first.candidate.id]),
            credit=memory.credit,
            device_sheet=device_sheet,
        )

    def fingerprint(self) -> str:
        """Return a hash over the whole state."""
        return self.archipelago.fingerprint()


def replay_store(path: Path, state: State) -> State:
    """Fold the facts of a store file into a fresh state and return it."""
    with Store.open(path, write=False) as store:
        state.replay(store.facts())
    return state
