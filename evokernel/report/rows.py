"""Judged candidates of a run with all their evaluations, read in one pass over the facts."""

from collections.abc import Iterator
from dataclasses import dataclass

from archive.journal import EvaluationEntry, ResultEntry
from archive.store import Store
from evokernel.records.evaluation import Evaluation, Status
from evokernel.report.verdicts import ProgramVerdicts


@dataclass(frozen=True, slots=True)
class ProgramMeasurements:
    """An evaluation with its place in the journal."""

    seq: int
    """Of the fact that committed it."""
    evaluation: Evaluation


@dataclass(frozen=True, slots=True)
class CandidateRow:
    """A judged candidate with all evaluations of its program."""

    result: ResultEntry
    """The fact that committed it first."""
    evaluations: tuple[ProgramMeasurements, ...]
    """Those that count for this run, oldest first."""
    verdicts: ProgramVerdicts
    """Made from `evaluations`."""

    @property
    def candidate_id(self) -> str:
        """The id of the candidate."""
        return self.result.proposal.candidate.id

    @property
    def status(self) -> Status:
        """The newest failure, if any; a fault of ours only where nothing else is known."""
        if self.verdicts.failure is not None:
            return self.verdicts.failure.status
        return Status.OK if self.verdicts.search is not None else self.shown.status

    @property
    def shown(self) -> Evaluation:
        """The evaluation its search numbers come from, else the newest one."""
        return self.verdicts.search or self.evaluations[-1].evaluation

    @property
    def decisive(self) -> Evaluation:
        """The newest failure, else the final evaluation, else that of the search."""
        return self.verdicts.failure or self.verdicts.reported or self.shown

    def seq_of(self, evaluation: Evaluation) -> int:
        """Return the seq of one of its evaluations. Raises `ValueError` for another's."""
        found = next((each.seq for each in self.evaluations if each.evaluation == evaluation), None)
        if found is None:
            raise ValueError(f"not an evaluation of {self.candidate_id}")
        return found


def read_judged(store: Store, *, until: int | None = None) -> list[CandidateRow]:
    """Return every judged candidate in the order of seq; with `until`, as known at that seq.

    A candidate that was proposed again is returned once, with the result that brought it in. Evaluations that
    do not count for this run are ignored; a candidate with no others is left out.
    """
    first: dict[str, ResultEntry] = {}
    programs: dict[str, list[ProgramMeasurements]] = {}
    for seq, evaluation, result in _facts(store, until):
        if result is not None:
            first.setdefault(result.proposal.candidate.id, result)
        if result is None or not result.reused:
            programs.setdefault(evaluation.key.program_hash, []).append(ProgramMeasurements(seq, evaluation))
    identity = store.identity()
    known = {
        program: tuple(m for m in found if identity is None or identity.counts(m.evaluation.key))
        for program, found in programs.items()
    }
    verdicts = {program: ProgramVerdicts.of([m.evaluation for m in found]) for program, found in known.items()}
    return [
        CandidateRow(result, known[result.program_hash], verdicts[result.program_hash])
        for result in first.values()
        if known.get(result.program_hash)
    ]


def _facts(store: Store, until: int | None) -> Iterator[tuple[int, Evaluation, ResultEntry | None]]:
    for fact in store.facts():
        if until is not None and fact.seq > until:
            return
        if isinstance(fact, ResultEntry):
            yield fact.seq, fact.evaluation, fact
        elif isinstance(fact, EvaluationEntry):
            yield fact.seq, fact.evaluation, None
