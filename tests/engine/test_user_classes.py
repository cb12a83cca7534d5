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
