"""The protocols of evokernel. An implementation of any of these can be named in a config or passed in code."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol, TypeGuard

from evokernel.records.build import BuildFailure, Built
from evokernel.records.evaluation import Evaluation, EvaluationRequest, EvaluatorIdentity
from evokernel.records.events import Event
from evokernel.records.fitness import Elite
from evokernel.records.hidden_check import HiddenCheck
from evokernel.records.host_activity import HostActivity
from evokernel.records.llm import ModelCall, ModelCallResult, ModelRequest, Reply, Spending, StoredCall
from evokernel.records.run import Progress
from evokernel.records.step import Answer, Context, ContextNeed, OperatorKind, OperatorRecord, Prompt
from evokernel.task import Task

# ---------------------------------------------------------------------------------------------------- languages


class Language(Protocol):
    """A language of candidates: it checks and builds sources."""

    name: str
    """Its name in configs and in candidates."""
    suffix: str
    """End of a source file's name, with the dot."""
    syntax: str
    """The syntax of its files, as a fence in Markdown names it: `cpp`, `python`."""
    environment: str
    """Compiler, version and flags: part of the key of every evaluation."""

    def warm(self) -> None:
        """Start what the first build would have to wait for, if anything. Blocking; thread-safe."""

    def program_hash(self, source: str) -> str:
        """Return a hash over the whole text, comments and layout included: a compiler or the program may read them."""

    def static_check(self, source: str) -> str | None:
        """Return why the source cannot be tried, or None. Costs milliseconds, runs no compiler."""

    def build(
        self, source: str, task: Task, *, hidden: Sequence[Mapping[str, int | float]] = ()
    ) -> Built | BuildFailure:
        """Compile for this machine, confined. Blocking; thread-safe.

        A language that compiles for concrete shapes takes them from the task's search workloads and from `hidden`,
        further dimensions by name. The task is resolved for the device class; only its shapes enter hash and metrics.
        """

    def build_checked(self, source: str, task: Task) -> bytes | BuildFailure | None:
        """Compile an executable that runs one call under sanitizers; None where the language has none."""

    def guide(self, task: Task) -> str:
        """Return what an author of a kernel must know: entry point, argument order, alignment, tunables."""


# ---------------------------------------------------------------------------------------------------- evaluation


class Evaluator(Protocol):
    """Proves a candidate right and measures it. Raises `HarnessError` for its own faults only.

    An evaluator exists only when it is ready. Entering an `AbstractAsyncContextManager[Evaluator]` starts the
    processes, admits the task, and measures device and baselines. Leaving it ends every process that was started.
    """

    @property
    def identity(self) -> EvaluatorIdentity:
        """The evaluator's part of an evaluation's key, and its measurements of the device."""

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        """Return the verdict; a bad candidate is a verdict too."""


class ClusterEvaluator(Evaluator, Protocol):
    """An evaluator with several hosts."""

    def host_activity(self) -> Sequence[HostActivity]:
        """Return what each host does now, those that are left out among them; called every second."""


def has_hosts(evaluator: Evaluator) -> TypeGuard[ClusterEvaluator]:
    """Say whether an evaluator tells about its hosts."""
    return hasattr(evaluator, "host_activity")


class CheckEvaluator(Evaluator, Protocol):
    """An evaluator that takes further hidden checks, with each request."""

    async def admit(self, check: HiddenCheck) -> str:
        """Return why a check is not fit for the task, or nothing. Raises `HarnessError`."""

    async def recheck(self, request: EvaluationRequest) -> Evaluation | None:
        """Return the verdict on a candidate that fails one of the request's checks, else None; nothing is timed.

        Raises `HarnessError`.
        """


def takes_checks(evaluator: Evaluator) -> TypeGuard[CheckEvaluator]:
    """Say whether an evaluator takes further hidden checks."""
    return hasattr(evaluator, "admit") and hasattr(evaluator, "recheck")


# ---------------------------------------------------------------------------------------------------- search


class Operator(Protocol):
    """Makes proposals. One that subclasses this inherits the default of `supports`."""

    name: str
    """Its name in configs and proposals."""
    parents: int
    """Number of parents that it needs."""
    kind: OperatorKind
    """Decides how its parents are chosen."""

    def supports(self, language: str) -> bool:
        """Say whether it works on sources in a language; an island of another language leaves it out."""
        return True

    async def propose(self, context: Context) -> Answer | None:
        """Return an answer, or None where the operator has none for these parents."""


class Crossover(Operator, Protocol):
    """A rule of kind `crossover`: it joins two parents of different skeletons."""

    def suits(self, first: Elite, second: Elite, *, known: Collection[str]) -> bool:
        """Say whether the two give a candidate whose id is not in `known`. A pure function, called often."""


class ModelOperator(Operator, Protocol):
    """An operator of kind `model`: it asks a language model, and writes prompts and reads replies by functions."""

    role: str
    """The role that a model needs to answer."""
    needs: frozenset[ContextNeed]
    """Conditions on its context, beside the number of parents."""

    def prompt(self, context: Context) -> Prompt:
        """Return the prompt of a step."""

    def read(self, reply: str, prompt: Prompt) -> Answer:
        """Return the answer that a reply to a prompt gives."""


def asks_model(operator: Operator) -> TypeGuard[ModelOperator]:
    """Say whether an operator asks a language model."""
    return operator.kind is OperatorKind.MODEL


def is_crossover(operator: Operator) -> TypeGuard[Crossover]:
    """Say whether an operator joins two structures."""
    return operator.kind is OperatorKind.CROSSOVER


class LanguageModel(Protocol):
    """One or several models behind budgets, limits and the record of calls."""

    async def complete(self, request: ModelRequest) -> Reply:
        """Return a reply, an earlier one where the same was asked for this step before.

        Raises:
            BudgetSpent: the call could cost more than is left.
            ModelsUnavailable: nothing answers.
            ModelError: this request fails for good.
        """

    def stop_new_calls(self) -> None:
        """Begin no further attempt: a waiting request raises `ModelsUnavailable`; an attempt under way goes on."""

    async def close(self) -> None:
        """Close connections."""


class CallLog(Protocol):
    """The record of every call. Each write is durable when its method returns."""

    def of_step(self, step: int, ordinal: int) -> StoredCall | None:
        """Return the newest call with a usable reply that was made for a step, or None."""

    def find(self, key: str, sample: int) -> StoredCall | None:
        """Return a call with a usable reply by its key and sample, or None."""

    def samples(self, key: str) -> int:
        """Return the number of samples of a key that were begun."""

    def begin(self, call: ModelCall) -> int:
        """Write down a call before it is made and return its number."""

    def end(self, number: int, result: ModelCallResult) -> None:
        """Write down the end of a call."""

    def spending(self) -> Spending:
        """Return the cost of all calls of the run."""


class Archive(Protocol):
    """Decides which elites an island keeps."""

    def add(self, elite: Elite, elites: list[Elite]) -> bool:
        """Take the elite into those of an island if it is the best of its niche; say whether it was taken.

        Equal calls give equal lists in the same order. The best elite of all is always in the list.
        """


class Selector(Protocol):
    """Picks a parent among the elites of an island; one with an attribute `by_workload = True` among its champions too.

    A champion is the fastest right candidate of the island on a workload.
    """

    def select(self, elites: Sequence[Elite], picks: Mapping[str, int], rng: Any) -> Elite:
        """Return one elite. `picks` counts the steps in which each candidate was a parent. Never called with none."""


class Chooser(Protocol):
    """Orders the operators of an island for one step; the first with something to work on is asked."""

    def order(self, shares: Mapping[str, float], accounts: Mapping[str, OperatorRecord], rng: Any) -> Sequence[str]:
        """Return every name in `shares`. An operator that was never asked has no record in `accounts`."""


class Stopper(Protocol):
    """Decides when a search ends."""

    def reason(self, progress: Progress) -> str | None:
        """Return the reason to stop now, or None."""

    def remaining(self, progress: Progress) -> float | None:
        """Return the share of the budget left, 0 to 1, or None where it cannot be known."""


class Listener(Protocol):
    """Receives the events of a search; cannot change it."""

    def hear(self, event: Event) -> None:
        """Take note of one event."""


def __getattr__(name: str) -> Any:
    """Return a record under the path that it had here before."""
    from evokernel.aliases import resolve

    return resolve(__name__, name)
