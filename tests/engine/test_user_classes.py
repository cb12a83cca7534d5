"""Classes of a user's own in a config: what chooses operators, and what ends a search."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from archive.journal import EmptyStep, ResultEntry
from archive.store import Store
from evokernel.config.run import BudgetConfig
from evokernel.engine.stoppers import stopper_from
from evokernel.errors import ConfigError
from evokernel.protocols import Operator
from evokernel.records.run import Progress
from evokernel.records.step import Context, Draft, OperatorKind, OperatorRecord
from tests.support.engine import Heard, toy_config, toy_search
from tests.support.fakes import InstantEvaluator


class Alphabetical:
    """Turns to operators in the order of their names."""

    def order(self, shares: Mapping[str, float], accounts: Mapping[str, OperatorRecord], rng: object) -> Sequence[str]:
        return sorted(shares)


class FastEnough:
    """Ends a search that has found a kernel of half the best speed."""

    def reason(self, progress: Progress) -> str | None:
        return "fast enough" if progress.best_speedup >= 0.5 else None

    def remaining(self, progress: Progress) -> float | None:
        return None


class Choosy:
    """Raises as a selector, a chooser and a stopper."""

    def __init__(self, pressure: float = 0.0) -> None:
        pass

    def select(self, elites: Sequence[object], picks: object, rng: object) -> object:
        return elites[0].speed  # type: ignore[attr-defined]

    def order(self, shares: object, accounts: object, rng: object) -> Sequence[str]:
        raise KeyError("none")

    def reason(self, progress: Progress) -> str | None:
        return f"{1 / (progress.evaluations - 3):.0f}" and None

    def remaining(self, progress: Progress) -> float | None:
        return None


class Silent(Choosy):
    """Returns what is no elite, no list of names and no reason."""

    def select(self, elites: object, picks: object, rng: object) -> object:
        return None

    def order(self, shares: object, accounts: object, rng: object) -> Sequence[str]:
        return ["tune", "tone"]

    def reason(self, progress: Progress) -> str | None:
        return True  # type: ignore[return-value]


class Broken(Operator):
    """Has a fault."""

    name, parents, kind = "broken", 1, OperatorKind.RULE

    async def propose(self, context: Context) -> Draft | None:
        raise ValueError("no such loop")


def test_an_operator_that_raises_is_told_once_with_its_place(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = toy_config(islands=[{"name": "one", "operators": {f"{__name__}:Broken": 0.5, "tune": 0.5}}])
    heard = Heard()
    with Store.open(tmp_path / "toy.db", write=True) as store:
        asyncio.run(toy_search(store, config, InstantEvaluator(), heard=heard).run())
    told = [note for note in heard.notes if "Broken failed" in note]
    assert told
    assert all("ValueError: no such loop" in note and f"({__file__}:" in note for note in told)
    assert not [each for each in caplog.records if each.levelno >= logging.WARNING]


def test_a_chooser_of_a_users_own_orders_the_operators(tmp_path: Path) -> None:
    operators = {"tune": 9.0, "blend": 0.01}
    config = toy_config(islands=[{"name": "one", "operators": operators, "choose": f"{__name__}:Alphabetical"}])
    with Store.open(tmp_path / "toy.db", write=True) as store:
        asyncio.run(toy_search(store, config, InstantEvaluator()).run())
        facts = list(store.facts())
    made = [fact.proposal.operator for fact in facts if isinstance(fact, ResultEntry)]
    nothing = [fact.no_candidate.operator for fact in facts if isinstance(fact, EmptyStep)]
    assert made.count("blend") + nothing.count("blend") > made.count("tune") / 4  # by their shares it had none


def test_a_stopper_of_a_users_own_ends_a_search(tmp_path: Path) -> None:
    config = toy_config(budget={"evaluations": 500, "stoppers": [f"{__name__}:FastEnough"]})
    with Store.open(tmp_path / "toy.db", write=True) as store:
        search = toy_search(store, config, InstantEvaluator())
        assert asyncio.run(search.run()) == "fast enough"
    assert search.account.best_speedup >= 0.5


@pytest.mark.parametrize(
    ("island", "budget", "words"),
    [
        ({"selector": {"kind": f"{__name__}:Choosy"}}, {}, r"selector '.*:Choosy' of island 'one' failed: AttributeE"),
        ({"selector": {"kind": f"{__name__}:Silent"}}, {}, r"island 'one' failed: select returned None; expected one"),
        (
            {"choose": f"{__name__}:Choosy"},
            {},
            r"chooser '.*:Choosy' of island 'one' failed: KeyError: 'none' \(/.*:\d",
        ),
        ({"choose": f"{__name__}:Silent"}, {}, r"failed: order returned \['tune', 'tone'\]; expected a list of \["),
        ({}, {"stoppers": [f"{__name__}:Choosy"]}, r"stopper '.*:Choosy' failed: ZeroDivisionError: "),
        ({}, {"stoppers": [f"{__name__}:Silent"]}, r"stopper '.*:Silent' failed: reason returned True; expected a te"),
    ],
)
def test_a_choice_that_fails_is_named_and_the_search_can_go_on(
    tmp_path: Path, island: dict[str, object], budget: dict[str, object], words: str
) -> None:
    one = {"name": "one", "operators": {"tune": 1.0, "blend": 1.0}}
    with Store.open(tmp_path / "toy.db", write=True) as store:
        config = toy_config(islands=[{**one, **island}], budget={"evaluations": 6, **budget})
        with pytest.raises(ConfigError, match=words):
            asyncio.run(toy_search(store, config, InstantEvaluator()).run())
        config = toy_config(islands=[one], budget={"evaluations": 6})
        assert asyncio.run(toy_search(store, config, InstantEvaluator()).run()) == "budget of 6 evaluations used"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"choose": "dice"}, "unknown chooser 'dice': expected one of shares, ucb, pairs, or package.module:Class"),
        ({"choose": f"{__name__}:Dice"}, f"chooser '{__name__}:Dice' cannot be imported"),
    ],
)
def test_a_chooser_that_cannot_be_used_is_named(tmp_path: Path, changes: dict[str, str], words: str) -> None:
    config = toy_config(islands=[{"name": "one", "operators": {"tune": 1.0}, **changes}])
    with Store.open(tmp_path / "toy.db", write=True) as store, pytest.raises(ConfigError, match=words):
        toy_search(store, config, InstantEvaluator())


def test_a_stopper_that_cannot_be_used_is_named() -> None:
    with pytest.raises(ConfigError, match=r"unknown stopper 'never': expected package\.module:Class"):
        stopper_from(BudgetConfig(hours=1, stoppers=("never",)))
