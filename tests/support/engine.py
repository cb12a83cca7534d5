"""A whole engine on a real store, with a toy language and an instant evaluator."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from archive.store import Store
from evokernel.agents.services import ServiceReference
from evokernel.config.run import RunConfig
from evokernel.engine.assemble import make_archipelago, make_operators
from evokernel.engine.remark_listener import RemarkListener
from evokernel.engine.search import Search
from evokernel.engine.search_run import Parts
from evokernel.engine.state import SearchState
from evokernel.engine.state_fold import StateFold
from evokernel.engine.stoppers import stopper_from
from evokernel.llm.recordings import RecordedReply
from evokernel.protocols import Evaluator, Language, LanguageModel, Listener, Operator
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Evaluation
from evokernel.records.events import Event, Notice, ResultCommitted
from evokernel.task import Role, Scalar, Signature, Task, Tensor, Workload, WorkloadSet
from evokernel.testing.replay import replay_store
from tests.support.fakes import TOY, ToyLanguage

ASKING = 2
TASK = Task(
    name="toy",
    reference=lambda x, **_: x,
    signature=Signature((Tensor("x", ("N",)),), (Scalar("N"),), (Tensor("y", ("N",), role=Role.OUTPUT),)),
    workloads={"cpu": WorkloadSet((Workload("w", {"N": 8}),), (Workload("h", {"N": 9}),), {"N": (1, 9)})},
    flops="N",
)


class Heard:
    """Keeps every event."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def hear(self, event: Event) -> None:
        self.events.append(event)

    @property
    def notes(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Notice)]

    @property
    def evaluations(self) -> list[Evaluation]:
        return [event.evaluation for event in self.events if isinstance(event, ResultCommitted)]


def toy_config(**changes: Any) -> RunConfig:
    """Return the config of a small search on two islands."""
    base: dict[str, Any] = {
        "task": "toy",
        "budget": {"evaluations": 12},
        "islands": [
            {"name": "one", "operators": {"tune": 1.0, "blend": 0.3}},
            {"name": "two", "operators": {"tune": 1.0}, "selector": {"kind": "explore"}},
        ],
        "migration": {"every": 5},
        "reset_after": 8,
        "in_flight": 2,
    }
    return RunConfig.model_validate(base | changes).on("cpu")


def toy_search(
    store: Store,
    config: RunConfig,
    evaluator: AbstractAsyncContextManager[Evaluator],
    *,
    source: str = TOY,
    others: Sequence[str] = (),
    heard: Listener | None = None,
    operators: Mapping[str, Operator] | None = None,
    model: LanguageModel | None = None,
    handed_in_only: bool = False,
    clock: Callable[[], float] = time.monotonic,
    replayed: Mapping[int, RecordedReply] | None = None,
    task: Task = TASK,
    language: Language | None = None,
    agents: ServiceReference | None = None,
) -> Search:
    """Return an engine on an open store; `operators` take the place of those with their names.

    With an empty `source` there is no seed; `others` are further ones. Two operators may wait for the model at once.
    """
    operators = all_operators(config, operators)
    parts = Parts(
        task=task,
        language=language or ToyLanguage(),
        store=store,
        archipelago=make_archipelago(config, operators),
        evaluator=evaluator,
        stopper=stopper_from(config.budget),
        listeners=[RemarkListener(store), *([heard] if heard else [])],
        model=model,
        asking_at_once=ASKING if model else 0,
        replayed=replayed or {},
        agents=agents,
    )
    seeds = [Candidate(text, "cpp") for text in (source, *others) if text]
    return Search(
        parts, config=config, seeds=seeds, in_flight=config.in_flight, handed_in_only=handed_in_only, clock=clock
    )


def replayed(path: Path, config: RunConfig, operators: Mapping[str, Operator] | None = None) -> SearchState:
    """Return the state that the store alone gives."""
    return replay_store(path, StateFold(make_archipelago(config, all_operators(config, operators)), ToyLanguage()))


def all_operators(config: RunConfig, own: Mapping[str, Operator] | None) -> dict[str, Operator]:
    """Return the operators of a config, a test's own among them."""
    named = {name for island in config.islands for name in island.operators} - set(own or {})
    islands = [island.model_copy(update={"operators": dict.fromkeys(named, 1.0)}) for island in config.islands]
    return {**make_operators(config.model_copy(update={"islands": tuple(islands)})), **(own or {})}
