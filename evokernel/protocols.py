"""Every seam of evokernel on one page. An implementation of any of these can be named in a config or passed in code."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from evokernel.records.build import BuildFailure, Built
from evokernel.records.evaluation import Evaluation, EvaluationRequest, EvaluatorIdentity
from evokernel.records.events import Event
from evokernel.records.fitness import Elite
from evokernel.records.llm import Message, ModelCall, ModelCallResult, ModelRequest, Reply, Spending, StoredCall
from evokernel.records.run import Progress
from evokernel.records.step import Answer, Context, ContextNeed
from evokernel.task import Task

# ---------------------------------------------------------------------------------------------------- languages


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
    """Decides which elites an island keeps."""

    def add(self, elite: Elite, elites: list[Elite]) -> bool:
        """Take the elite into those of an island if it is the best of its niche; say whether it was taken.

        The same offers give the same list in the same order. The best elite of all is always in it.
        """
        ...


class Selector(Protocol):
    """Picks a parent among the elites of an island."""

    def select(self, elites: Sequence[Elite], picks: Mapping[str, int], rng: Any) -> Elite:
        """Return one elite. `picks` counts how often each candidate was a parent. Never called with none."""
        ...


class Stopper(Protocol):
    """Decides when a search is over."""

    def reason(self, progress: Progress) -> str | None:
        """Return why to stop now, or None."""
        ...

    def remaining(self, progress: Progress) -> float | None:
        """Return the share of the budget left, 0 to 1, or None where it cannot be known."""
        ...


class Listener(Protocol):
    """Hears what happens; cannot change it."""

    def hear(self, event: Event) -> None:
        """Take note of one event."""
        ...


def __getattr__(name: str) -> Any:
    """Return a record under the path that it had here before."""
    from evokernel.aliases import resolve

    return resolve(__name__, name)
