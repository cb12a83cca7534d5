"""The records of one step of a search: selection, context, answer and result."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from enum import StrEnum

from evokernel.records.candidate import Candidate, Proposal, Usage
from evokernel.records.evaluation import Evaluation, Status
from evokernel.records.fitness import Elite
from evokernel.records.focus import Focus
from evokernel.records.hidden_check import CheckReply, HiddenCheck
from evokernel.records.llm import Hypothesis, Insight, KnownInsight, Message, Origin
from evokernel.task import Task


@dataclass(frozen=True, slots=True)
class Sibling:
    """A measured point of a skeleton."""

    values: Mapping[str, int]
    """Values of the tunables, by name."""
    fitness: float | None
    """Value of its fitness; None where it failed."""
    needs: Mapping[str, float] = field(default_factory=dict)
    """Amounts of limited resources that it needs, by name, where known; shared memory in bytes for a block."""
    limits: Mapping[str, float] = field(default_factory=dict)
    """The device's limits of the resources that it needs too much of, by name."""
    code: str = ""
    """First digits of the hash of what was compiled; empty where nothing was."""
    known_code: bool = False
    """It was compiled to the same as an earlier kernel, whose times it has."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The archipelago's choice for one step."""

    step: int
    """Number of the step."""
    island: str
    """The population that it is for."""
    operator: str
    """Name of the operator."""
    parents: tuple[Elite, ...]
    """The kernels to work on."""
    broken: str = ""
    """Id of a failed candidate to mend; empty for none."""
    insights: tuple[int, ...] = ()
    """Seqs of insights from earlier replies to use."""
    model: str = ""
    """Name of the model to ask first; empty for one drawn by weight."""

    @property
    def origin(self) -> Origin:
        """The origin of the calls of this step."""
        named = tuple(elite.candidate.id for elite in self.parents) + ((self.broken,) if self.broken else ())
        return Origin(self.step, self.island, self.operator, named, self.insights)


@dataclass(frozen=True, slots=True)
class StepResult:
    """One committed result, as the search state takes it in."""

    seq: int
    """The fact that holds it."""
    proposal: Proposal | None
    """The proposal that was judged; None where there was no candidate."""
    step: int
    """Number of the step."""
    island: str
    """The population that the step was for."""
    operator: str
    """Name of the operator."""
    parents: tuple[str, ...]
    """Ids of the parents."""
    evaluation: Evaluation | None
    """The verdict; None where there was no candidate."""
    program_hash: str = ""
    """Hash of the candidate's source; empty without a candidate."""
    skeleton: str = ""
    """Hash of the candidate's source with tunables masked; empty without a candidate."""
    elite: Elite | None = None
    """The elite that it made; None where the candidate is not right."""
    exhausted: bool = True
    """Without an evaluation: asking this operator for these parents again is of no use."""
    insight: Insight | None = None
    """The insight that came in place of a candidate, or None."""
    usage: Usage = field(default_factory=Usage)
    """The cost of a step without a candidate."""
    failed: tuple[Usage, ...] = ()
    """Costs of its calls of models without a reply, by model."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A candidate that was wrong."""

    candidate: Candidate
    """The source."""
    evaluation: Evaluation
    """The verdict."""
    operator: str
    """Name of the operator that made it."""
    rationale: str
    """The operator's reason."""
    parents: tuple[str, ...]
    """Ids of its parents."""
    tries: int = 0
    """Repairs so far, those of the candidates it was mended from included."""


@dataclass(frozen=True, slots=True)
class ErrorFix:
    """A failed candidate beside the right one that was made from it."""

    error: str
    """The class of its error, which other failures share."""
    feedback: str
    """The line of its feedback that the class comes from."""
    broken: str
    """Source of the failed candidate."""
    mended: str
    """Source of the right one."""
    program_hash: str
    """Hash of that source."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A change that was made and measured."""

    rationale: str
    """The operator's reason."""
    parent: str
    """Id of the first parent."""
    gain: float | None
    """Natural logarithm of the speed-up over the parent; None where the candidate was wrong."""
    status: Status
    """The verdict."""
    log_speedup: float | None = None
    """Natural logarithm of the speed-up over the baseline; None where it was not measured."""


@dataclass(frozen=True, slots=True)
class Context:
    """Everything that an operator sees for one step; frozen, built by the engine."""

    step: int
    """Number of the step."""
    seed: int
    """Makes the operator's random choices repeatable."""
    island: str
    """The population that the step is for."""
    task: Task
    """The task, on the device class of the run."""
    language: str
    """Name of the candidates' language."""
    threads: int
    """Threads that a candidate may use."""
    parents: tuple[Elite, ...]
    """The kernels to work on."""
    siblings: tuple[Sibling, ...]
    """Measured points of the first parent's skeleton."""
    known: Set[str]
    """Every candidate proposed so far, by id; it goes on growing while an operator waits for a model."""
    tried: frozenset[str]
    """Rationales already used on the first parent."""
    credit: Mapping[str, float]
    """By first word of a rationale: how often such a change gave a better kernel in this run, 0 to 1."""
    device_sheet: Mapping[str, float]
    """Measured peak rates in GFLOP/s and bandwidths in GB/s, by name."""
    idle: Mapping[str, int] = field(default_factory=dict)
    """By rationale: how often such a change gave known machine code and no new tunable, since it last did not."""
    selection: Selection | None = None
    """The selection, for operators that ask a model."""
    device: str = ""
    """Name of the device."""
    environment: str = ""
    """Compiler, version and flags, in words."""
    guide: str = ""
    """The language's guide for authors of kernels for this task."""
    verdicts: Mapping[str, Evaluation] = field(default_factory=dict)
    """The evaluation of each parent, of the broken candidate and of each inspiration, by candidate id."""
    inspirations: tuple[Elite, ...] = ()
    """Good kernels of other niches and islands."""
    broken: Failure | None = None
    """The failed candidate to mend, or None."""
    failures: tuple[Failure, ...] = ()
    """Recent failures, oldest first, with those of these parents last."""
    fixes: tuple[ErrorFix, ...] = ()
    """Fixes of errors such as that of the broken candidate, newest first."""
    attempts: tuple[Attempt, ...] = ()
    """Recent attempts, oldest first, on the first parent and elsewhere."""
    best: Elite | None = None
    """The fittest kernel of the run, or None."""
    insights: tuple[KnownInsight, ...] = ()
    """Those selected, then those on the first parent and this island, lessons that have paid."""
    hypotheses: tuple[Hypothesis, ...] | None = None
    """Bottlenecks named on the island, those with the newest changes last; None where the run keeps none."""
    hints: tuple[str, ...] = ()
    """Words of people, oldest first."""
    agent_hints: tuple[str, ...] = ()
    """Words of agents that answered earlier steps, the newest few, oldest first."""
    constraints: tuple[str, ...] = ()
    """Limits that every kernel must keep, in words; the focus among them."""
    focus: tuple[Focus, ...] = ()
    """Classes that rewrites may be of; none for all."""
    foreign: tuple[Candidate, ...] = ()
    """Kernels for this task in other languages: those handed in, the newest first, then the task's own."""
    foreign_words: Mapping[str, str] = field(default_factory=dict)
    """Words on those that were handed in, by id."""
    in_hand: tuple[Mapping[str, int], ...] = ()
    """Points of the first parent's skeleton that wait for their verdict."""
    checks: tuple[HiddenCheck, ...] = ()
    """Hidden checks that the run has added, oldest first."""
    looks: tuple["LookKind", ...] = ()
    """Looks that the operator may ask for before it answers."""
    look: "Look | None" = None
    """The look that was taken in this step."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """The messages of one step for a model, with what its reply may refer to: reading it renders nothing again."""

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
    """An operator's new source, before it becomes a `Proposal` with its lineage."""

    source: str
    """The text."""
    parents: tuple[str, ...]
    """Ids of its parents; gains are counted over the first."""
    rationale: str
    """The operator's reason."""
    predicted_speedup: float | None = None
    """Speed-up over the first parent that the operator expects; None where it does not say."""
    inspirations: tuple[str, ...] = ()
    """Ids of kernels that were shown as ideas."""
    insights: tuple[int, ...] = ()
    """Seqs of the insights that went into it."""
    usage: Usage = field(default_factory=Usage)
    """Its cost."""


@dataclass(frozen=True, slots=True)
class InsightReply:
    """An answer of words to keep, without a kernel."""

    insight: Insight
    """The words."""
    usage: Usage = field(default_factory=Usage)
    """Their cost."""
    others: tuple[Insight, ...] = ()
    """Further insights of the same reply; the last one counts as the newest."""


@dataclass(frozen=True, slots=True)
class UnusableReply:
    """An answer that cannot be used; another one may be."""

    reason: str
    """The fault, in words."""
    usage: Usage = field(default_factory=Usage)
    """Its cost."""
    text: str = ""
    """The reply itself, for people; empty where there is none."""


class LookKind(StrEnum):
    """A further look at the kernel to change, or at the failed one."""

    PROFILE = "profile"
    """Facts of the compiler, counters and remarks."""
    MACHINE_CODE = "machine code"
    """The instructions of its hot loop."""
    DIFF = "diff"
    """The difference from the most similar kernel of another structure, with the speed of that."""


@dataclass(frozen=True, slots=True)
class LookRequest:
    """An answer that asks for one more look first."""

    kind: LookKind
    """The look."""
    text: str
    """The reply."""
    usage: Usage = field(default_factory=Usage)
    """Its cost."""


@dataclass(frozen=True, slots=True)
class Look:
    """A look that was taken, and is stored."""

    asked: LookRequest
    """The request."""
    text: str
    """What was seen."""


Answer = Draft | InsightReply | UnusableReply | LookRequest | CheckReply


@dataclass(frozen=True, slots=True)
class OperatorRecord:
    """The record of an operator on an island, or of an operator with a model."""

    count: float = 0
    """Answers so far; a fraction where older ones count less."""
    gain: float = 0.0
    """Sum of the gains over the parent, as natural logarithms of speed-ups."""
    cost_usd: float = 0.0
    """Cost of its answers and their evaluations, in dollars."""

    def __add__(self, other: "OperatorRecord") -> "OperatorRecord":
        """Return both records as one."""
        return OperatorRecord(self.count + other.count, self.gain + other.gain, self.cost_usd + other.cost_usd)

    def charged(self, cost_usd: float) -> "OperatorRecord":
        """Return the record with a further cost, in dollars, for the same answers."""
        return OperatorRecord(self.count, self.gain, self.cost_usd + cost_usd)

    def faded(self, weight: float) -> "OperatorRecord":
        """Return the record with a weight, 0 to 1."""
        return OperatorRecord(self.count * weight, self.gain * weight, self.cost_usd * weight)


class OperatorKind(StrEnum):
    """The sort of an operator, which decides how its parents are chosen."""

    RULE = "rule"
    """It changes one structure."""
    TUNER = "tuner"
    """It searches the tunables of one skeleton."""
    CROSSOVER = "crossover"
    """It joins two structures, from any island."""
    MODEL = "model"
    """It asks a language model."""


class ContextNeed(StrEnum):
    """A condition on the context of a model operator, beside the number of parents."""

    BROKEN = "broken"
    """A failed candidate with tries left, in place of parents."""
    STRANGERS = "strangers"
    """Parents of different skeletons, from any island."""
    LADDER = "ladder"
    """Parents in ascending order, each clearly faster than the one before."""
    STRATEGY = "strategy"
    """A strategy that was not implemented well yet."""
    STRATEGIES = "strategies"
    """Two strategies to be crossed, where there are two."""
    FOREIGN = "foreign"
    """A kernel in another language."""
    STATE = "state"
    """A failed candidate made from the first parent, in place of it, where there is one with tries left."""
    LOOK = "look"
    """May ask for one more look before it answers."""
    CHECKS = "checks"
    """Hidden checks of the run. The operator proposes further ones, not kernels, for its share of the steps."""
