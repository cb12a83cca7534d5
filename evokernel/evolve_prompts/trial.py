"""Trial of a text on a task: a search of a few asks from a stored kernel, in a store of its own; score and traces."""

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from archive.fork import fork
from archive.journal import EmptyStep, ResultEntry
from archive.store import Store
from evokernel.config.islands import IslandConfig, SelectorConfig
from evokernel.config.run import BudgetConfig, RunConfig
from evokernel.config.session_budget import RUN_LIMIT
from evokernel.engine.assemble import assemble
from evokernel.engine.search import Search
from evokernel.errors import BudgetSpent, ConfigError, ModelsUnavailable, StoreCorrupt
from evokernel.evolve_prompts.records import PromptTask, PromptTrial
from evokernel.llm.assemble import make_models
from evokernel.records.evaluation import Evaluation
from evokernel.records.llm import CallStatus, StoredCall
from evokernel.records.timing import combined_speedup

logger = logging.getLogger(__name__)
MakeSearch = Callable[[RunConfig, Store], Search]
"""Returns a search on an open store; the budget in its config limits its calls."""
_UNREACHED = 1_000_000
"""Evaluations that no trial comes to: its calls end it."""
_USABLE = (CallStatus.OK, CallStatus.TRUNCATED)


@dataclass(frozen=True, slots=True)
class PromptTrace:
    """One ask of a trial from its prompt to its verdict."""

    prompt: str
    """The messages, as the model saw them."""
    reply: str
    """The whole reply."""
    verdict: str
    """Status, speed-up over the task's kernel and feedback; or why the reply could not be used."""


def open_search(config: RunConfig, store: Store) -> Search:
    """Return a session of a trial, whose models end it: one more call than its budget allows is never begun."""
    limits = BudgetConfig(evaluations=_UNREACHED)  # the store's own: a session that has no calls left judges what waits
    model = make_models(config, log=store.calls, notify=logger.info)
    search = assemble(config.model_copy(update={"budget": limits}), store, model=model)
    search.finals = False
    return search


def trial_config(config: RunConfig, *, operator: str, prompts: Path) -> RunConfig:
    """Return the config of a trial: that of the task's run, with one island that has one operator."""
    island = IslandConfig(
        name="trial",
        operators={operator: 1.0},
        selector=SelectorConfig(kind="rank", pressure=1.0),  # always the best
        niches=config.islands[0].niches,
    )
    return config.model_copy(
        update={
            "islands": (island,),
            "topology": "ring",
            "reset_after": None,
            "prompts": str(prompts),
            "replies_from": (),
            "notify": (),
            "budget": BudgetConfig(evaluations=_UNREACHED),
        }
    )


async def ask(
    task: PromptTask, path: Path, config: RunConfig, *, asks: int, dollars: float | None, make_search: MakeSearch
) -> None:
    """Ask until so many asks are answered and judged; what was answered before a kill is not asked again.

    Args:
        task: the kernel to start from.
        path: the store of the trial.
        asks: how often the operator is asked, each time from the best kernel so far.
        dollars: the most that its models may cost over all sessions; None for no limit.

    Raises:
        BudgetSpent: the dollars do not suffice.
        ModelsUnavailable: no model answers any more.
        ConfigError: the operator has no input here.
        EvokernelError: from the search.
    """
    _begin(task, path)
    while True:
        with Store.open(path, write=True) as store:
            before, left = len(_judged(store)), _calls_left(store, asks)
            if before >= asks:
                return
            limits = {"calls": store.calls.spending().calls + left, "dollars": dollars}
            budget = config.budget.model_copy(update=limits)
            reason = await make_search(config.model_copy(update={"budget": budget}), store).run()
            if len(_judged(store)) > before:
                continue
            if reason.startswith(f"{RUN_LIMIT} of $"):
                raise BudgetSpent(f"{task.name}: {reason}")
            if not store.calls.spending().calls:
                (operator,) = config.islands[0].operators
                raise ConfigError(
                    f"{operator} finds nothing to work on in the kernel {task.candidate} alone ({reason}); evolve the "
                    "prompt of an operator that works on one right kernel, such as mutate or refine"
                )
            raise ModelsUnavailable(f"{task.name}: {before} of {asks} asks were answered, and no more are: {reason}")


def score(task: PromptTask, path: Path, *, prompt: int) -> PromptTrial:
    """Return the score of a finished trial."""
    with Store.open(path, write=False) as store:
        base = _base(store, task)
        gains = [_gain(fact, base) for fact in _judged(store)]
        spent = store.calls.spending()
    kept = [max(0.0, gain) for gain in gains if gain is not None]
    return PromptTrial(
        prompt, task.name, math.fsum(kept) / len(gains), len(kept), len(gains), spent.calls, spent.cost_usd
    )


def traces(task: PromptTask, path: Path) -> list[PromptTrace]:
    """Return the traces of a trial, oldest first."""
    with Store.open(path, write=False) as store:
        base, replies = _base(store, task), _replied(store)
        return [_trace(fact, replies[fact.step], base) for fact in _judged(store)]


def _begin(task: PromptTask, path: Path) -> None:
    """Fork the kernel into the trial's store, unless that was done before a kill."""
    if path.exists():
        with Store.open(path, write=False) as store:
            if store.meta("forked_candidate") is not None:
                return
    fork(task.store, path, candidate=task.candidate)


def _replied(store: Store) -> dict[int, list[StoredCall]]:
    """Return the calls with a usable reply by their step."""
    found: dict[int, list[StoredCall]] = {}
    for call in store.calls.all():
        if call.result is not None and call.result.status in _USABLE:
            found.setdefault(call.call.origin.step, []).append(call)
    return found


def _calls_left(store: Store, asks: int) -> int:
    """Return the calls to come: one for each ask without a reply, and one for each reply that a second one ends."""
    replied, judged = _replied(store), {fact.step for fact in _judged(store)}
    halves = [
        step
        for step, (first, *others) in replied.items()
        if step not in judged and not others and first.result is not None
        and (first.result.status is CallStatus.TRUNCATED or "LOOK:" in first.result.text)
    ]  # fmt: skip
    return max(0, asks - len(replied)) + len(halves)


def _judged(store: Store) -> list[ResultEntry | EmptyStep]:
    """Return the ends of the steps that a model answered."""
    steps = _replied(store).keys()
    return [fact for fact in store.facts() if isinstance(fact, ResultEntry | EmptyStep) and fact.step in steps]


def _base(store: Store, task: PromptTask) -> float:
    """Return the logarithm of the speed-up of the kernel to start from, by its newest evaluation that counts."""
    identity, found = store.identity(), store.candidate(task.candidate)
    known: list[Evaluation] = [each.evaluation for each in store.evaluations_of(found.program_hash)]
    right = [each for each in known if each.ok and each.timings and (identity is None or identity.counts(each.key))]
    if not right:
        raise StoreCorrupt(
            f"{store.database.path} holds no right evaluation of {task.candidate}, which its trial began with"
        )
    return math.log(combined_speedup(right[-1].timings).value)


def _gain(fact: ResultEntry | EmptyStep, base: float) -> float | None:
    """Return the natural logarithm of the speed-up over the kernel to start from; None without a right kernel."""
    if isinstance(fact, EmptyStep) or not fact.evaluation.ok:
        return None
    return math.log(combined_speedup(fact.evaluation.timings).value) - base


def _trace(fact: ResultEntry | EmptyStep, calls: list[StoredCall], base: float) -> PromptTrace:
    messages = calls[0].call.messages
    reply = "\n\n".join(call.result.text for call in calls if call.result is not None)
    gain = _gain(fact, base)
    if isinstance(fact, EmptyStep):
        verdict = f"no kernel: {fact.no_candidate.reason}"
    elif gain is None:
        verdict = f"{fact.evaluation.status}: {fact.evaluation.feedback}"
    else:
        verdict = f"right, {math.exp(gain):.3f}x the kernel to start from. {fact.evaluation.feedback}".rstrip()
    return PromptTrace("\n\n".join(message.text for message in messages), reply, verdict)
