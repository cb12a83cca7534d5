"""Selection of the next step's work: an island, an operator, parents and insights."""

from collections.abc import Callable, Collection, Mapping, Sequence

from evokernel.protocols import ModelOperator, Operator, asks_model
from evokernel.records.step import ContextNeed, Selection
from evokernel.rng import stream
from islands.assignment import Assignment, assignment_for
from islands.history import BY_HAND
from islands.island import Island
from islands.parent_selection import ParentSelection
from islands.state import ArchipelagoState


class StepSelector:
    """Selection of work as a function of seed, step and state; it does no I/O and only reads the state.

    Args:
        islands: by name, in order.
        operators: by name, every operator an island may use.
        seed: the run's seed.
        repairs: how often a failed candidate of a model, or its repair, is given back.
        foreign: True where the task has kernels in other languages.
    """

    def __init__(
        self,
        islands: Mapping[str, Island],
        *,
        operators: Mapping[str, Operator],
        seed: int,
        repairs: int,
        foreign: bool,
    ) -> None:
        self._islands = islands
        self._operators = operators
        self._repairable = {BY_HAND, *(name for name, operator in operators.items() if asks_model(operator))}
        self._seed = seed
        self._repairs = repairs
        self._foreign = foreign

    def select(
        self,
        step: int,
        state: ArchipelagoState,
        *,
        models: bool = True,
        rules: bool = True,
        names: Collection[str] = (),
        may_ask: Callable[[str, str], bool] = lambda island, role: True,
        running: Sequence[Selection] = (),
    ) -> Selection | None:
        """Return what to work on at this step; None when no operator has anything left to try anywhere.

        Args:
            step: the number of the step.
            state: of all islands.
            models: operators that ask a model may be chosen.
            rules: the others may be.
            names: only these operators may be chosen; all, where none is named.
            may_ask: says whether a model would answer for an island and a role.
            running: steps that wait for a model; their failures and strategies are not selected again.
        """
        islands = list(self._islands.values())
        turn = step % len(islands)
        for island in islands[turn:] + islands[:turn]:
            able = {
                name: share
                for name, share in island.operators.items()
                if (not names or name in names)
                and (
                    models and may_ask(island.name, operator.role)
                    if asks_model(operator := self._operators[name])
                    else rules
                )
            }
            selection = self._on_island(step, island, able, state=state, running=running)
            if selection is not None:
                return selection
        return None

    def _on_island(
        self,
        step: int,
        island: Island,
        shares: Mapping[str, float],
        *,
        state: ArchipelagoState,
        running: Sequence[Selection],
    ) -> Selection | None:
        if not shares:
            return None
        rng = stream(self._seed, step, f"ask {island.name}")
        choice = ParentSelection(island, state, rng)
        for name in island.chooser.order(shares, state.history.operators.get(island.name, {}), rng):
            operator = self._operators[name]
            if asks_model(operator):
                work = self._for_model(operator, choice, running)
            else:
                work = self._for_rule(operator, choice)
            if work is not None:
                return Selection(step, island.name, name, work.parents, work.failed, work.insights)
        return None

    def _for_rule(self, operator: Operator, choice: ParentSelection) -> Assignment | None:
        if not choice.state.populations[choice.island.name].elites:
            return None
        parents = choice.parents(operator)
        return Assignment(parents) if parents else None

    def _for_model(
        self, operator: ModelOperator, choice: ParentSelection, running: Sequence[Selection]
    ) -> Assignment | None:
        if ContextNeed.FOREIGN in operator.needs and not self._foreign:
            return None
        history = choice.state.history
        elites = history.near(choice.available()) or history.near(list(history.elites.values()))
        return assignment_for(
            operator,
            choice.first(elites) if elites else None,
            island=choice.island.name,
            history=history,
            repairable=history.failures.repairable(self._repairable, repairs=self._repairs),
            rng=choice.rng,
            running=running,
        )
