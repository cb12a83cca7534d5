"""The records of one step of a search: what was selected, what an operator sees of it, what it answers, what came."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from enum import StrEnum

from evokernel.records.candidate import Candidate, Proposal, Usage
from evokernel.records.evaluation import Evaluation, Status
from evokernel.records.fitness import Elite
from evokernel.records.llm import Insight, KnownInsight, Message, Origin
from evokernel.task import Task


@dataclass(frozen=True, slots=True)
class Sibling:
    """A measured point of a skeleton: tunable values and fitness value (None where it failed)."""

    values: Mapping[str, int]
    fitness: float | None


@dataclass(frozen=True, slots=True)
class Selection:
    """What the archipelago picked for one step: an island, an operator and what it works on.

    `broken` is the id of a failed candidate to mend; `insights` are the seqs of what earlier replies left.
    """

    step: int
    island: str
    operator: str
    parents: tuple[Elite, ...]
    broken: str = ""
    insights: tuple[int, ...] = ()

    @property
    def origin(self) -> Origin:
        """What is written down with the calls of this step."""
        named = tuple(elite.candidate.id for elite in self.parents) + ((self.broken,) if self.broken else ())
        return Origin(self.step, self.island, self.operator, named, self.insights)


@dataclass(frozen=True, slots=True)
class StepResult:
    """One committed result, as the search state takes it in. No evaluation: the operator had nothing to offer.

    `program_hash` and `skeleton` are those of the candidate; empty where there is none. `elite` is what the result
    has made; None where the candidate is not right. `exhausted`: without an evaluation, whether asking this operator
    for these parents again is of no use. `insight` is what came instead, and `usage` what finding out has cost.
    """

    seq: int
    proposal: Proposal | None
    step: int
    island: str
    operator: str
    parents: tuple[str, ...]
    evaluation: Evaluation | None
    program_hash: str = ""
    skeleton: str = ""
    elite: Elite | None = None
    exhausted: bool = True
    insight: Insight | None = None
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class Failure:
    """A candidate that was wrong. `tries` is how many repairs it and what it was mended from have had."""

    candidate: Candidate
    evaluation: Evaluation
    operator: str
    rationale: str
    parents: tuple[str, ...]
    tries: int = 0


@dataclass(frozen=True, slots=True)
class Attempt:
    """A change that was made and measured. `gain` is the natural logarithm of the speed-up over `parent`.

    Without a gain `status` says what was wrong. `log_speedup` is that over the baseline.
    """

    rationale: str
    parent: str
    gain: float | None
    status: Status
    log_speedup: float | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """All an operator sees; frozen, built by the loop. `seed` makes its random choices repeatable."""

    step: int
    seed: int
    island: str
    task: Task
    language: str
    threads: int
    parents: tuple[Elite, ...]
    siblings: tuple[Sibling, ...]
    known: Set[str]
    """Every candidate proposed so far, by id; it goes on growing while an operator waits for a model."""
    """Ids of candidates already tried."""
    tried: frozenset[str]
    """Rationales already used on the first parent."""
    credit: Mapping[str, float]
    """By first word of a rationale: how often such a change gave a better kernel in this run, 0 to 1."""
    device_sheet: Mapping[str, float]
    selection: Selection | None = None
    """What was selected, for operators that ask a model."""
    device: str = ""
    environment: str = ""
    """What compiles kernels here, in words."""
    guide: str = ""
    """The language's guide for authors of kernels for this task."""
    verdicts: Mapping[str, Evaluation] = field(default_factory=dict)
    """The evaluation of each parent, of the broken candidate and of each inspiration, by candidate id."""
    inspirations: tuple[Elite, ...] = ()
    """Good kernels of other niches and islands."""
    broken: Failure | None = None
    failures: tuple[Failure, ...] = ()
    """What was wrong of late, oldest first, with that of these parents last."""
    attempts: tuple[Attempt, ...] = ()
    """What was tried of late, oldest first, on the first parent and elsewhere."""
    best: Elite | None = None
    insights: tuple[KnownInsight, ...] = ()
    """Those selected, then what is known of the first parent and this island, lessons that have paid."""
    hints: tuple[str, ...] = ()
    """What people have said, oldest first."""
    constraints: tuple[str, ...] = ()
    """What every kernel must keep to, in words."""
    foreign: tuple[Candidate, ...] = ()
    """Correct kernels for this task in other languages."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """All that a model is told in one step, with what its reply may refer to: reading it renders nothing again."""

    messages: tuple[Message, ...]
    """The turns, in order."""
    context: Context
    """The context that the prompt was made from."""
    inspirations: tuple[str, ...] = ()
    """Ids of the kernels shown as ideas; fewer than the context has where the prompt was cut to its length."""
    insights: tuple[int, ...] = ()
    """Seqs of the diagnoses and lessons shown."""
    strategies: tuple[int, ...] = ()
    """Seqs of the strategies shown."""


@dataclass(frozen=True, slots=True)
class Draft:
    """An operator's answer, before it becomes a `Proposal` with its lineage."""

    source: str
    parents: tuple[str, ...]
    rationale: str
    predicted_speedup: float | None = None
    inspirations: tuple[str, ...] = ()
    insights: tuple[int, ...] = ()
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class InsightReply:
    """An answer that is no kernel but words to keep."""

    insight: Insight
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class UnusableReply:
    """An answer that cannot be used, and why. Another one may be."""

    reason: str
    usage: Usage = field(default_factory=Usage)


Answer = Draft | InsightReply | UnusableReply


@dataclass(frozen=True, slots=True)
class OperatorRecord:
    """The account of an operator on an island."""

    count: int = 0
    """Answers so far."""
    gain: float = 0.0
    """Sum of the gains over the parent, as natural logarithms of speed-ups."""
    cost_usd: float = 0.0
    """What its answers and their evaluations have cost."""


class OperatorKind(StrEnum):
    """The sort of an operator, which decides how its parents are chosen."""

    RULE = "rule"  # changes one structure
    TUNER = "tuner"  # searches the tunables of one skeleton
    CROSSOVER = "crossover"  # joins two structures, from any island
    MODEL = "model"  # asks a language model


class ContextNeed(StrEnum):
    """A condition on the context of a model operator, beside the number of parents."""

    BROKEN = "broken"  # a failed candidate with tries left, in place of parents
    STRANGERS = "strangers"  # parents of different skeletons, from any island
    LADDER = "ladder"  # parents in ascending order, each clearly faster than the one before
    STRATEGY = "strategy"  # a strategy that was not implemented well yet
    STRATEGIES = "strategies"  # two strategies to be crossed, where there are two
    FOREIGN = "foreign"  # a kernel in another language
