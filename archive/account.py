"""Account of a run: one fold over its facts, for the search and for every reader."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from archive.grid import niche_of
from archive.journal import ResultEntry
from evokernel.records.candidate import EVERYWHERE, SEED
from evokernel.records.evaluation import Evaluation, Fidelity, Mode, Status
from evokernel.records.fitness import Fitness, fitness_of
from evokernel.records.leader import LeaderChange
from evokernel.records.llm import Spending
from evokernel.records.run import Progress

CONTENDERS = 512
"""Number of right programs that are kept to replace a leader."""
Axes = Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class MeasuredProgram:
    """The few values of an evaluation that an account needs."""

    seq: int
    """The fact that holds it."""
    program_hash: str
    """The hash of the program."""
    status: Status
    """The verdict."""
    mode: Mode
    """The mode in which the program ran."""
    fidelity: Fidelity
    """The length of the measurement."""
    fitness: Fitness | None
    """The fitness by this evaluation alone; None where it is not right or was not timed for search."""


@dataclass(frozen=True, slots=True)
class JudgedResult:
    """A candidate that got its evaluation in a step."""

    seq: int
    """The fact that holds the result."""
    at: float
    """The time of that fact, in s since 1970."""
    candidate: str
    """The id of the candidate."""
    operator: str
    """The operator that proposed it."""
    island: str
    """The population it was proposed for; `*` for all."""
    rationale: str
    """The reason that the operator gave."""
    copied: bool
    """True where a fork brought it along."""
    measured: MeasuredProgram
    """Its evaluation."""
    descriptor: dict[str, float]
    """Its measured behaviour."""
    outdated: bool = False
    """True where an evaluator whose verdicts no longer count found it right, until it is judged again."""


@dataclass(frozen=True, slots=True)
class EndedStep:
    """A step without a candidate."""

    island: str
    """The population it was for."""


@dataclass(frozen=True, slots=True)
class BannedProgram:
    """A program that a person keeps from leading."""

    program_hash: str
    """The hash of the program."""


AccountFact = JudgedResult | MeasuredProgram | EndedStep | BannedProgram


@dataclass(slots=True)
class IslandAccount:
    """Niches and the best of the results of one island."""

    axes: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """The edges of its niches, by descriptor."""
    niches: set[tuple[int, ...]] = field(default_factory=set)
    """The niches that some right result fell into."""
    best: LeaderChange | None = None
    """Its best result; None without one."""
    stale: int = 0
    """Results since the best one."""


@dataclass(slots=True)
class RunAccount:
    """Counts, leader and populations of a run. Populations hold own results: migration and restarts change none."""

    results: int = 0
    """Judged candidates."""
    copied: int = 0
    """Those among them that a fork copied: they count for no budget."""
    correct: int = 0
    """Right ones among the results."""
    copied_correct: int = 0
    """Right ones among the copied results."""
    since_improvement: int = 0
    """Results since the lead changed; our own faults and copied results do not count."""
    lead: LeaderChange | None = None
    """The best kernel by the numbers of the search."""
    seed: LeaderChange | None = None
    """The first right seed."""
    changes: list[LeaderChange] = field(default_factory=list)
    """The results that took the lead, oldest first."""
    curve: list[tuple[int, float]] = field(default_factory=list)
    """The number of results, and the speed-up of the best kernel from then on; it falls where a leader did not hold."""
    populations: dict[str, IslandAccount] = field(default_factory=dict)
    """By name of the island."""
    contenders: dict[str, LeaderChange] = field(default_factory=dict)
    """The fittest right programs, by hash; of those far behind the leader some are left out."""
    barred: set[str] = field(default_factory=set)
    """Programs that any evaluation found wrong, or that a person has banned."""
    outdated: dict[str, JudgedResult] = field(default_factory=dict)
    """Results that wait to be judged again, by hash of the program."""

    @property
    def evaluations(self) -> int:
        """The results that count for the budget."""
        return self.results - self.copied

    @property
    def best_speedup(self) -> float:
        """The speed-up of the best kernel; 0 without one."""
        return self.lead.speedup if self.lead else 0.0

    @property
    def over_seed(self) -> float | None:
        """The speed-up of the best kernel over the first right seed; None without both."""
        return self.lead.speedup / self.seed.speedup if self.lead and self.seed else None

    def progress(self, *, seconds: float, models: Spending, roofline_share: float | None, ahead: int = 0) -> Progress:
        """Return what a stopper decides on; `ahead` counts proposals in flight as if they were judged."""
        return Progress(
            evaluations=self.evaluations + ahead,
            seconds=seconds,
            cost_usd=models.cost_usd,
            since_improvement=self.since_improvement,
            best_speedup=self.best_speedup,
            roofline_share=roofline_share,
            tokens=models.tokens,
            calls=models.calls,
        )

    def apply(self, fact: AccountFact) -> LeaderChange | None:
        """Take in a fact; return the change of the leader if it is a result that took the lead."""
        match fact:
            case JudgedResult():
                return self._judged(fact)
            case MeasuredProgram():
                self._remeasured(fact)
            case BannedProgram(program):
                self._bar(program)
            case EndedStep(island):
                for population in self._populations_of(island):
                    population.stale += 1
        return None

    def _judged(self, result: JudgedResult) -> LeaderChange | None:
        status = result.measured.status
        self.results += 1
        self.copied += result.copied
        self.correct += status is Status.OK
        self.copied_correct += result.copied and status is Status.OK
        if result.outdated:
            self.outdated.setdefault(result.measured.program_hash, result)
        if result.outdated or status is Status.HARNESS_ERROR:
            return None
        before = self.lead
        known = self._known(result)
        improved = known is not None and (before is None or known.fitness.value > before.fitness.value)
        self.since_improvement = 0 if improved or result.copied else self.since_improvement + 1
        if known is not None and result.operator == SEED and self.seed is None:
            self.seed = known
        if known is not None and improved:
            self.changes.append(known)
            self._set_lead(known)
        for population in self._populations_of(result.island):
            _add_to_population(population, result, known)
        return known if improved else None

    def _known(self, result: JudgedResult) -> LeaderChange | None:
        """Return the leader that the result could be; None where its program is not right."""
        measured = result.measured
        if measured.status is not Status.OK:
            self._bar(measured.program_hash)
        if measured.fitness is None or measured.program_hash in self.barred:
            return None
        known = LeaderChange(
            seq=result.seq,
            at=result.at,
            candidate=result.candidate,
            program_hash=measured.program_hash,
            operator=result.operator,
            island=result.island,
            rationale=result.rationale,
            mode=measured.mode,
            fidelity=measured.fidelity,
            fitness=measured.fitness,
            evaluation_seq=measured.seq,
        )
        older = self.contenders.get(measured.program_hash)
        if older is not None:
            self._remeasured(measured)
            return _measured_as(known, self.contenders[measured.program_hash])
        self.contenders[measured.program_hash] = known
        if len(self.contenders) > 2 * CONTENDERS:
            ranked = sorted(self.contenders.values(), key=lambda each: (-each.fitness.value, each.seq))
            self.contenders = {each.program_hash: each for each in ranked[:CONTENDERS]}
        return known

    def _remeasured(self, measured: MeasuredProgram) -> None:
        """Take in a further evaluation: the longer one counts, then the newer one."""
        program = measured.program_hash
        if measured.status not in (Status.OK, Status.HARNESS_ERROR):
            self._bar(program)
        known = self.contenders.get(program)
        if known is None and measured.fitness is not None:
            self._judged_again(program, measured)
        if known is None or measured.fitness is None:
            return
        if known.fidelity is Fidelity.PRECISE and measured.fidelity is not Fidelity.PRECISE:
            return
        self.contenders[program] = replace(
            known, mode=measured.mode, fidelity=measured.fidelity, fitness=measured.fitness, evaluation_seq=measured.seq
        )
        if self.lead is not None and self.lead.program_hash == program:
            self._find_lead()

    def _judged_again(self, program: str, measured: MeasuredProgram) -> None:
        """Count a result of an earlier evaluator by the new verdict on its program."""
        result = self.outdated.pop(program, None)
        known = None if result is None else self._known(replace(result, measured=measured))
        if result is None or known is None:
            return
        if result.operator == SEED and self.seed is None:
            self.seed = known
        for population in self._populations_of(result.island):
            _add_to_population(population, result, known)
        self._find_lead()

    def _bar(self, program: str) -> None:
        self.barred.add(program)
        self.contenders.pop(program, None)
        for name, population in self.populations.items():
            if population.best is not None and population.best.program_hash == program:
                own = (each for each in self.contenders.values() if each.island in (name, EVERYWHERE))
                population.best = max(own, key=_rank, default=None)
        if self.lead is not None and self.lead.program_hash == program:
            self._find_lead()

    def _find_lead(self) -> None:
        self._set_lead(max(self.contenders.values(), key=_rank, default=None))

    def _set_lead(self, lead: LeaderChange | None) -> None:
        before, self.lead = self.lead, lead
        if lead is not None and lead != before:
            self.contenders[lead.program_hash] = lead
            self.curve.append((self.results, lead.speedup))

    def _populations_of(self, island: str) -> list[IslandAccount]:
        """Return the populations that a result goes to: that of its island, or all."""
        if island == EVERYWHERE:
            return list(self.populations.values())
        return [self.populations.setdefault(island, IslandAccount())]


def _rank(known: LeaderChange) -> tuple[float, int]:
    return known.fitness.value, -known.seq


def _measured_as(known: LeaderChange, other: LeaderChange) -> LeaderChange:
    return replace(
        known, mode=other.mode, fidelity=other.fidelity, fitness=other.fitness, evaluation_seq=other.evaluation_seq
    )


def _add_to_population(population: IslandAccount, result: JudgedResult, known: LeaderChange | None) -> None:
    population.stale += 1
    if known is None:
        return
    population.niches.add(niche_of(result.descriptor, population.axes))
    if population.best is None or known.fitness.value > population.best.fitness.value:
        population.best, population.stale = known, 0


def populations_of(islands: Mapping[str, Axes]) -> dict[str, IslandAccount]:
    """Return the populations of a run that has not begun, by island, of the axes of their niches."""
    return {name: IslandAccount(dict(axes)) for name, axes in islands.items()}


def judged_result(result: ResultEntry) -> JudgedResult:
    """Return a result of the journal as an account takes it in."""
    proposal, evaluation = result.proposal, result.evaluation
    return JudgedResult(
        seq=result.seq,
        at=result.at,
        candidate=proposal.candidate.id,
        operator=proposal.operator,
        island=proposal.island,
        rationale=proposal.rationale,
        copied=bool(result.origin),
        measured=measured_program(evaluation, result.evaluation_seq, program_hash=result.program_hash),
        descriptor=dict(evaluation.descriptor),
    )


def measured_program(evaluation: Evaluation, seq: int, *, program_hash: str) -> MeasuredProgram:
    """Return an evaluation, a fact with a seq, as an account takes it in."""
    key = evaluation.key
    fitness = fitness_of([evaluation])
    return MeasuredProgram(seq, program_hash, evaluation.status, key.mode, key.budget, fitness)
