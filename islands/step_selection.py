"""Selection of the next step's work: an island, an operator, parents and insights."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from evokernel.protocols import ModelOperator, Operator, asks_model
from evokernel.records.hidden_check import MOST_CHECKS
from evokernel.records.step import ContextNeed, OperatorRecord, Selection
from evokernel.rng import stream
from islands.assignment import Assignment, assignment_for
from islands.history import BY_HAND, History
from islands.island import Island
from islands.operator_choosers import orders_pairs
from islands.parent_selection import ParentSelection
from islands.state import ArchipelagoState


class StepSelector:
    """Selection of work as a function of seed, step and state; it does no I/O and only reads the state.

    Args:
        operators: by name, every operator an island may use.
        repairs: how often a failed candidate of a model, or its repair, is given back.
        foreign: True where the task has kernels in other languages.
        models: returns the weights of the models that may answer an island and a role, by name.
        plans: the rule for the next strategy to implement.
    """

    def __init__(
        self,
        islands: Mapping[str, Island],
        *,
        operators: Mapping[str, Operator],
        seed: int,
        repairs: int,
        foreign: bool,
        models: Callable[[str, str], Mapping[str, float]] = lambda island, role: {},
        plans: str = "newest",
    ) -> None:
        self._islands = islands
        self._operators = operators
        self._repairable = {BY_HAND, *(name for name, operator in operators.items() if asks_model(operator))}
        self._seed = seed
        self._repairs = repairs
        self._foreign = foreign
        self._models = models
        self._plans = plans

    def select(
        self,
        step: int,
        state: ArchipelagoState,
        *,
        models: bool = True,
        rules: bool = True,
        names: Collection[str] = (),
        may_ask: Callable[[str, str], bool] = lambda island, role: True,
        at_hand: Callable[[str, str], bool] = lambda operator, model: True,
        running: Sequence[Selection] = (),
    ) -> Selection | None:
        """Return what to work on at this step; None when no operator has anything left to try anywhere.

        Args:
            models: operators that ask a model may be chosen.
            rules: the others may be.
            names: only these operators may be chosen; all, where none is named.
            may_ask: says whether a model would answer for an island and a role.
            at_hand: says whether a model answered when an operator last asked for it.
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
            selection = self._on_island(step, island, able, state=state, running=running, at_hand=at_hand)
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
        at_hand: Callable[[str, str], bool],
    ) -> Selection | None:
        if not shares:
            return None
        rng = stream(self._seed, step, f"ask {island.name}")
        choice = ParentSelection(island, state, rng)
        idle: set[str] = set()  # operators without work
        testers = [name for name in shares if self._proposes_checks(name)]
        due = [(name, "") for name in testers if self._due(name, island, state.history, running)]
        proposers = {name: share for name, share in shares.items() if name not in testers}
        order = self._order(island, proposers, rng, history=state.history, running=running, at_hand=at_hand)
        for name, model in [*due, *order]:
            operator = self._operators[name]
            if name in idle:
                continue
            if asks_model(operator):
                work = self._for_model(operator, choice, running)
            else:
                work = self._for_rule(operator, choice)
            if work is not None:
                return Selection(step, island.name, name, work.parents, work.failed, work.insights, model)
            idle.add(name)
        return None

    def _proposes_checks(self, name: str) -> bool:
        operator = self._operators[name]
        return asks_model(operator) and ContextNeed.CHECKS in operator.needs

    def _due(self, name: str, island: Island, history: History, running: Sequence[Selection]) -> bool:
        """Say whether an operator that proposes hidden checks has had less than its share of an island's steps.

        No gain decides: what it yields are no kernels.
        """
        records = history.operators.get(island.name, {})
        asked = records.get(name, OperatorRecord()).count + sum(
            (each.island, each.operator) == (island.name, name) for each in running
        )
        share = island.operators[name] / sum(island.operators.values())
        steps = sum(record.count for record in records.values())
        return len(history.checks) < MOST_CHECKS and asked + 1 <= share * steps

    def _order(
        self,
        island: Island,
        shares: Mapping[str, float],
        rng: np.random.Generator,
        *,
        history: History,
        running: Sequence[Selection],
        at_hand: Callable[[str, str], bool],
    ) -> list[tuple[str, str]]:
        """Return operators, each with the model to ask first, the most promising first."""
        if not orders_pairs(island.chooser):
            records = history.operators.get(island.name, {})
            return [(name, "") for name in island.chooser.order(shares, records, rng)]
        pairs, parts = dict[str, tuple[str, str]](), dict[str, float]()
        for name, share in shares.items():
            operator = self._operators[name]
            weights = self._models(island.name, operator.role) if asks_model(operator) else {}
            able = {model: weight for model, weight in weights.items() if at_hand(name, model)} or {"": 1.0}
            for model, weight in able.items():
                key = f"{name}/{model}" if model else name
                pairs[key], parts[key] = (name, model), share * weight / sum(able.values())
        at_work = Counter((each.operator, each.model) for each in running)
        known = {key: history.pair(*pair) + OperatorRecord(at_work[pair]) for key, pair in pairs.items()}
        return [pairs[key] for key in island.chooser.order(parts, known, rng)]

    def _for_rule(self, operator: Operator, choice: ParentSelection) -> Assignment | None:
        if not choice.state.populations[choice.island.name].elites:
            return None
        parents = choice.parents(operator)
        return Assignment(parents) if parents else None

    def _for_model(
        self, operator: ModelOperator, choice: ParentSelection, running: Sequence[Selection]
    ) -> Assignment | None:
        if ContextNeed.FOREIGN in operator.needs and not (self._foreign or choice.state.history.foreign):
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
            plans=self._plans,
        )
