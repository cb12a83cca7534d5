"""Parts of a search, and what its sessions share."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from archive.account import RunAccount
from archive.store import Store
from evokernel.agents.services import ServiceReference
from evokernel.config.run import RunConfig
from evokernel.engine.model_gate import ModelGate
from evokernel.engine.state import SearchState
from evokernel.engine.state_fold import StateFold
from evokernel.engine.stoppers import FirstOf
from evokernel.llm.recordings import RecordedReply
from evokernel.protocols import Evaluator, Language, LanguageModel, Listener
from evokernel.records.candidate import Candidate
from evokernel.records.events import Notice, ProposalCommitted, ResultCommitted
from evokernel.task import Task
from islands.archipelago import Archipelago

_FINISH_S, _LEAST_FINISH_S, _FINISH_SHARE = 20.0, 5.0, 0.1
"""Time for what is in flight at the end: bounds, and the share of a limit on time."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The live objects of a search."""

    task: Task
    """The task, on the device class of the run."""
    language: Language
    """The language of the candidates."""
    store: Store
    """Open for writing."""
    archipelago: Archipelago
    """The policies of the islands."""
    evaluator: AbstractAsyncContextManager[Evaluator]
    """Entered when the search begins, left when it ends."""
    stopper: FirstOf
    """The rules that end the search."""
    listeners: Sequence[Listener]
    """Receive every event."""
    model: LanguageModel | None = None
    """Answers operators that ask one; None where prompts are answered elsewhere."""
    asking_at_once: int = 0
    """The most operators that wait for a model at once."""
    foreign: tuple[Candidate, ...] = ()
    """Correct kernels for the task in other languages."""
    replayed: Mapping[int, RecordedReply] = field(default_factory=dict)
    """Origins of a recorded run, by step."""
    agents: ServiceReference | None = None
    """Where agents look for the services of this search; None without agents."""


class SearchRun:
    """A search as its sessions see it: parts, settings, the fold over its facts, and the wish to stop.

    Args:
        config: the settings, to be compared with those in the store.
        in_flight: proposals that wait or are judged at once.
        handed_in_only: judge what others have handed in, and end: ask no operator, use up no budget, measure no winner.
        clock: in s; counts the rests of models.
    """

    def __init__(
        self,
        parts: Parts,
        *,
        config: RunConfig,
        seeds: Sequence[Candidate],
        in_flight: int,
        handed_in_only: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.parts = parts
        self.config = config
        self.seeds = seeds
        self.in_flight = in_flight
        self.handed_in_only = handed_in_only
        self.finals = not handed_in_only  # whether the winner is measured anew at the end
        self.finish_s = min(_FINISH_S, max(_FINISH_SHARE * parts.stopper.seconds, _LEAST_FINISH_S))
        """Time after that of the budget in which what is in flight may end, in s."""
        self.stopper = parts.stopper
        self.fold = StateFold(parts.archipelago, parts.language)
        self.stop_asked = ""
        self.opening_s = 0.0
        """Time that the evaluator took to open, in s."""
        self.finishing = False
        """True once nothing more is asked, and the winner is measured anew."""
        rules_go_on = config.budget.when_spent == "rules"
        self.gate = ModelGate(parts.model, self.notify, most=parts.asking_at_once, rules_go_on=rules_go_on, clock=clock)

    @property
    def state(self) -> SearchState:
        """The state after the facts so far; read only."""
        return self.fold.state

    @property
    def account(self) -> RunAccount:
        """The account of the run."""
        return self.state.account

    def stop(self, reason: str) -> None:
        """Ask nothing more; work in flight is finished and committed."""
        self.stop_asked = reason
        self.gate.stop_new_calls()

    def notify(self, event: ProposalCommitted | ResultCommitted | Notice) -> None:
        """Pass an event to every listener."""
        for listener in self.parts.listeners:
            listener.hear(event)
