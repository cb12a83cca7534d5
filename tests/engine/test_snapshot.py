"""A snapshot of the state gives what replaying every fact gives; whatever is wrong with it, the facts decide."""

import asyncio
import hashlib
import json
import re
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import zstandard

from archive.journal import ResultEntry
from archive.store import Store
from evokernel.config.run import RunConfig
from evokernel.engine.assemble import make_archipelago
from evokernel.engine.snapshot import Snapshots, pack, unpack
from evokernel.engine.state import SearchState, to_plain
from evokernel.engine.state_fold import StateFold
from evokernel.protocols import Operator
from evokernel.records.llm import ModelRequest
from evokernel.records.step import Context, Draft, OperatorKind
from islands.archipelago import PRUNE_EVERY
from tests.support.engine import all_operators, replayed, toy_config, toy_search
from tests.support.fakes import TOY, InstantEvaluator, ToyLanguage
from tests.support.model_search import run as run_asking
from tests.support.model_search import upwards

COUNT = 2 * PRUNE_EVERY + 300
OPERATORS = ("write", "rewrite")
OTHER_SHAPE = zstandard.compress(b'{"fingerprint": "0", "results": [], "state": {"archipelago": {}, "standing": {}}}')


class Write(Operator):
    """Makes a new program at every step."""

    parents, kind = 1, OperatorKind.RULE

    def __init__(self, name: str) -> None:
        self.name = name

    async def propose(self, context: Context) -> Draft:
        parents = tuple(elite.candidate.id for elite in context.parents)
        return Draft(f"{TOY}int n = {context.step};\n", parents=parents, rationale=f"{self.name}: {context.step % 7}")


def speed(source: str) -> float | None:
    drawn = hashlib.sha256(source.encode()).digest()[0]
    return None if drawn < 40 else 0.5 + drawn / 256


def writers() -> Mapping[str, Operator]:
    return {name: Write(name) for name in OPERATORS}


def config_of(count: int, **changes: Any) -> RunConfig:
    islands = [
        {"name": "one", "operators": {"write": 1.0}},
        {"name": "two", "operators": {"write": 0.5, "rewrite": 0.5}, "selector": {"kind": "explore"}},
    ]
    return toy_config(**{"budget": {"evaluations": count}, "islands": islands, "reset_after": 200, **changes})


def run(path: Path, count: int, **changes: Any) -> SearchState:
    with Store.open(path, write=True) as store:
        search = toy_search(store, config_of(count, **changes), InstantEvaluator(speed), operators=writers())
        asyncio.run(search.run())
        return search.state


def without_times(state: SearchState) -> str:
    """Return a state as text; two runs differ in the times at which the leader changed."""
    return re.sub(r'"at": [^,]+', "", json.dumps(to_plain(state)[0], sort_keys=True))


def fresh(config: RunConfig) -> StateFold:
    return StateFold(make_archipelago(config, all_operators(config, writers())), ToyLanguage())


def restored(path: Path, config: RunConfig) -> SearchState:
    """Return the state that the snapshot alone gives, blank where there is none that is used."""
    fold = fresh(config)
    with Store.open(path, write=True) as store:
        Snapshots(store, fold, config, evaluator=InstantEvaluator().identity).restore()
    return fold.state


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("snapshot") / "toy.db"
    run(path, COUNT)
    return path


@pytest.fixture
def path(filled: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "toy.db"
    with sqlite3.connect(filled) as source, sqlite3.connect(copy) as target:
        source.backup(target)
    return copy


def test_the_snapshot_gives_the_state_that_all_facts_give(path: Path) -> None:
    state, full = restored(path, config_of(COUNT)), replayed(path, config_of(COUNT), writers())
    assert COUNT < state.seq <= full.seq
    assert state.fingerprint() == full.fingerprint()
    assert state == full


def test_old_kernels_that_lead_nowhere_are_let_go_of_and_stay_known(path: Path) -> None:
    history = replayed(path, config_of(COUNT), writers()).archipelago.history
    with Store.open(path, write=False) as store:
        right = [fact for fact in store.facts() if isinstance(fact, ResultEntry) and fact.evaluation.ok]
    best = max(right, key=lambda fact: fact.evaluation.timings[0].speedup.value).proposal.candidate.id
    assert len(history.elites) < len(right)
    assert best in history.elites
    assert history.proposed >= {fact.proposal.candidate.id for fact in right}
    assert set(history.verdicts) == set(history.elites)


def test_a_run_goes_on_from_its_snapshot_as_from_its_facts(path: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare.db"
    with sqlite3.connect(path) as source, sqlite3.connect(bare) as target:
        source.backup(target)
        target.execute("DELETE FROM images")
    assert without_times(run(path, COUNT + 60)) == without_times(run(bare, COUNT + 60))


def test_an_edited_config_does_without_the_snapshot(path: Path) -> None:
    assert restored(path, config_of(COUNT, reset_after=7)).seq == 0
    assert restored(path, config_of(COUNT + 500)).seq > COUNT  # a larger budget changes no state


@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE images SET body = x'00'",
        "UPDATE images SET body = substr(body, 1, 500)",
        "DELETE FROM results WHERE seq > 100",
        "UPDATE images SET fits = 'older code'",
        f"UPDATE images SET body = x'{OTHER_SHAPE.hex()}'",
    ],
)
def test_a_damaged_snapshot_is_left_alone(path: Path, harm: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(harm)
    state = restored(path, config_of(COUNT))
    assert state.seq == 0
    assert state == fresh(config_of(COUNT)).state


def test_everything_that_a_fold_changes_is_in_the_snapshot(tmp_path: Path) -> None:
    def script(request: ModelRequest) -> str:
        step = request.origin.step
        return ("I am sorry", "A=16 B=1", "A=16 B=2", upwards(request))[step % 4]

    path = tmp_path / "asked.db"
    _, search, _ = run_asking(path, script, budget={"evaluations": 8})
    state = search.state
    history = state.archipelago.history
    history.hint("try less", island="*")
    history.pinned.append(next(iter(history.elites)))
    assert history.failures.by_id
    with Store.open(path, write=False) as store:
        again = unpack(pack(state), store)
    assert again == state
    assert again.fingerprint() == state.fingerprint()


@pytest.mark.parametrize("seed", range(4))
def test_every_search_comes_back_from_its_snapshot(tmp_path: Path, seed: int) -> None:
    path, changes = tmp_path / "toy.db", {"seed": seed, "budget": {"evaluations": 40 + 17 * seed}}
    with Store.open(path, write=True) as store:
        search = toy_search(store, toy_config(**changes), InstantEvaluator())
        asyncio.run(search.run())
        assert unpack(pack(search.state), store) == search.state == replayed(path, toy_config(**changes))
