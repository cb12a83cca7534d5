"""Every seam of evokernel on one page. An implementation of any of these can be named in a config or passed in code."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from evokernel.records.candidate import Candidate, Proposal
from evokernel.records.evaluation import Evaluation, EvaluationKey, Fidelity, Mode
from evokernel.records.fitness import Elite
from evokernel.records.llm import Message, ModelCall, ModelCallResult, ModelRequest, Reply, Spending, StoredCall
from evokernel.records.step import Answer, Context, ContextNeed
from evokernel.task import Task

# ---------------------------------------------------------------------------------------------------- languages


@dataclass(frozen=True, slots=True)
class Built:
    """What a compiler made of a source.

    `artifact` is loadable code; `hash` is taken over what was compiled, for finding compiled duplicates;
    `descriptor` is behaviour read from it; `metrics` are numbers with their unit in the name.
    """

    artifact: bytes
    hash: str
    descriptor: Mapping[str, float]
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class BuildFailure:
    """Why a source did not compile; `message` is fit to act on, at most about 40 lines.

    `timed_out` after a limit; `raised` where it is the source's own host code that ended with an exception.
    """

    message: str
    timed_out: bool = False
    raised: bool = False


class Language(Protocol):
    """How a source becomes something that runs."""

    name: str
    suffix: str
    environment: str
    """Compiler, version and flags: part of the key of every evaluation."""

    def program_hash(self, source: str) -> str:
        """Return a hash that ignores comments and layout but not the values of tunables."""
        ...

    def static_check(self, source: str) -> str | None:
        """Return why the source cannot be tried, or None. Costs milliseconds, runs no compiler."""
        ...

    def build(
        self, source: str, task: Task, *, hidden: Sequence[Mapping[str, int | float]] = ()
    ) -> Built | BuildFailure:
        """Compile for this machine, confined. Blocking; thread-safe.

        A language that compiles for concrete shapes takes them from the search workloads of the task (resolved for
        the device class) and from `hidden`, further dimensions by name; only the former enter hash and metrics.
        """
        ...

    def build_checked(self, source: str, task: Task) -> bytes | BuildFailure | None:
        """Compile an executable that runs one call under sanitizers; None where the language has none."""
        ...

    def guide(self, task: Task) -> str:
        """Return what an author of a kernel must know: entry point, argument order, alignment, tunables."""
        ...


# ---------------------------------------------------------------------------------------------------- evaluation


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """One candidate to judge. Timing may stop early below half of the `incumbent` speed-up of a workload, by name.

    `processes` is how many fresh processes measure it for the budget `final`; 0 for as many as the settings say.
    """

    candidate: Candidate
    program_hash: str
    budget: Fidelity
    incumbent: Mapping[str, float] = field(default_factory=dict)
    processes: int = 0


@dataclass(frozen=True, slots=True)
class EvaluatorIdentity:
    """The parts of an evaluation's key that the evaluator knows, and what it measured of the device at start.

    `mode` is how candidates are run unless one cannot be: what cannot be recorded is run in worker mode.
    `device_sheet` holds peak rates in GFLOP/s and bandwidths in GB/s by name; `sandbox` is one line for people;
    `baseline_us` is the time of each baseline by workload and name, in us.
    """

    task_hash: str
    device: str
    environment: str
    evaluator_version: str
    mode: Mode
    device_sheet: Mapping[str, float]
    sandbox: str
    baseline_us: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def key(self, program_hash: str, budget: Fidelity, *, mode: Mode | None = None) -> EvaluationKey:
        """Return the key of an evaluation made by this evaluator; `mode` where it is not the evaluator's own."""
        return EvaluationKey(
            program_hash=program_hash,
            task_hash=self.task_hash,
            device=self.device,
            environment=self.environment,
            evaluator_version=self.evaluator_version,
            mode=mode or self.mode,
            budget=budget,
        )

    def keys(self, program_hash: str, budget: Fidelity) -> tuple[EvaluationKey, ...]:
        """Return every key that this evaluator's verdict on a program may have, the likeliest first."""
        modes = (Mode.ARTIFACT, Mode.WORKER) if self.mode is Mode.ARTIFACT else (self.mode,)
        return tuple(self.key(program_hash, budget, mode=mode) for mode in modes)


class Evaluator(Protocol):
    """Proves a candidate right and measures it. Raises `HarnessError` for its own faults only."""

    async def start(self) -> EvaluatorIdentity:
        """Start the processes, admit the task, measure device and baselines. Idempotent."""
        ...

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        """Return the verdict; a bad candidate is a verdict too."""
        ...

    async def close(self) -> None:
        """End every process this evaluator started."""
        ...


# ---------------------------------------------------------------------------------------------------- search


class Operator(Protocol):
    """Makes proposals. `parents` is how many it needs; `tuner` says it searches one skeleton's tunables."""

    name: str
    parents: int
    tuner: bool

    async def propose(self, context: Context) -> Answer | None:
        """Return an answer, or None where this operator has nothing to offer for these parents."""
        ...


class Matchmaker(Operator, Protocol):
    """A rule for two parents of different skeletons, from any island: it says itself which suit each other."""

    def suits(self, first: Elite, second: Elite, *, known: Collection[str]) -> bool:
        """Say whether something can be made of the two whose id is not known. A pure function; asked often."""
        ...


class ModelOperator(Operator, Protocol):
    """An operator that asks a model: what it says to it and what it makes of the reply are functions of their own.

    `role` decides which models may answer.
    """

    role: str
    wants: frozenset[ContextNeed]

    def prompt(self, context: Context) -> tuple[Message, ...]:
        """Return what the model is told."""
        ...

    def read(self, reply: str, context: Context) -> Answer:
        """Return what a reply is worth."""
        ...


class LanguageModel(Protocol):
    """One or several models behind budgets, limits and the record of calls."""

    async def complete(self, request: ModelRequest) -> Reply:
        """Return a reply, an earlier one where the same was asked for this step before.

        Raises:
            BudgetSpent: the call could cost more than is left.
            ModelsUnavailable: nothing answers.
            ModelError: this request fails for good.
        """
        ...

    def hush(self) -> None:
        """Begin no further attempt: whoever waits for one hears `ModelsUnavailable`; what is under way goes on."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


class CallLog(Protocol):
    """The record of every call. What is written is durable when the method returns."""

    def of_step(self, step: int, ordinal: int) -> StoredCall | None:
        """Return the newest call with a usable reply that was made for a step, or None."""
        ...

    def find(self, key: str, sample: int) -> StoredCall | None:
        """Return a call with a usable reply by what was asked, or None."""
        ...

    def samples(self, key: str) -> int:
        """Return how many different samples of a key were begun."""
        ...

    def begin(self, call: ModelCall) -> int:
        """Write down what is about to be paid for and return its number."""
        ...

    def end(self, number: int, result: ModelCallResult) -> None:
        """Write down what came of it."""
        ...

    def spending(self) -> Spending:
        """Return what all calls of the run have cost."""
        ...


class Archive(Protocol):
    """The elites of one island, one per niche."""

    def add(self, elite: Elite) -> bool:
        """Take the elite in if it is the best of its niche; say whether it was taken."""
        ...

    def elites(self) -> Sequence[Elite]:
        """Return all elites in a fixed order."""
        ...

    def remove(self, candidate_id: str) -> None:
        """Drop a candidate if it is an elite here."""
        ...

    def clear(self) -> None:
        """Forget every elite."""
        ...

    def __len__(self) -> int:
        """Return the number of occupied niches."""
        ...


class Selector(Protocol):
    """Picks a parent among the elites of an island."""

    def select(self, elites: Sequence[Elite], picks: Mapping[str, int], rng: Any) -> Elite:
        """Return one elite. `picks` counts how often each candidate was a parent. Never called with none."""
        ...


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands, over all its sessions; what a stopper decides on."""

    evaluations: int
    seconds: float
    cost_usd: float
    since_improvement: int
    best_speedup: float
    roofline_share: float | None
    tokens: int = 0
    calls: int = 0


class Stopper(Protocol):
    """Decides when a search is over."""

    def reason(self, progress: Progress) -> str | None:
        """Return why to stop now, or None."""
        ...

    def remaining(self, progress: Progress) -> float | None:
        """Return the share of the budget left, 0 to 1, or None where it cannot be known."""
        ...


@dataclass(frozen=True, slots=True)
class ProposalCommitted:
    """A proposal was stored and waits for its evaluation."""

    proposal: Proposal


@dataclass(frozen=True, slots=True)
class ResultCommitted:
    """A result was committed. `improved` says it is the best of the run so far."""

    proposal: Proposal
    evaluation: Evaluation
    seq: int
    improved: bool
    reused: bool


@dataclass(frozen=True, slots=True)
class Notice:
    """Something a person should read: a phase began, an island was reset, a crown was refused."""

    text: str
    warning: bool = False


Event = ProposalCommitted | ResultCommitted | Notice


class Listener(Protocol):
    """Hears what happens; cannot change it."""

    def hear(self, event: Event) -> None:
        """Take note of one event."""
        ...
