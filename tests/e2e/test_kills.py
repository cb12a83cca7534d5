"""Fifty kills (-9) of the whole process group of a real search, at random instants; each time it is resumed."""

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from archive.facts import Fact, Remeasured, Result
from archive.store import Store
from evokernel.assemble import make_archipelago, make_operators
from evokernel.config import load_config
from evokernel.evaluate.compilers import local_language
from evokernel.evaluation import Status
from evokernel.state import State, replay_store
from tests.e2e.kill_and_resume import children, kill_group, log_of, start, wait_for_no_children, write_config
from tests.processes import take_orphans

KILLS = 50
TASK = Path(__file__).parent / "small_task.py"


@pytest.fixture
def ours() -> Iterator[list[str]]:
    """Become the parent of every orphan, so that none can hide; gives the children that other tests started."""
    take_orphans(True)
    yield children()
    take_orphans(False)


def committed(store: Store) -> list[tuple[object, ...]]:
    return [_signature(fact) for fact in store.facts()]


def _signature(fact: Fact) -> tuple[object, ...]:
    match fact:
        case Result():
            return (fact.seq, "result", fact.step, fact.program_hash, fact.evaluation)
        case Remeasured():
            return (fact.seq, "evaluation", fact.evaluation)
    return (fact.seq, type(fact).__name__)


def evaluated(store: Store) -> list[tuple[str, str]]:
    """The programs and budgets that were really measured, in order; faults of our own may be tried again."""
    measured = [
        fact.evaluation
        for fact in store.facts()
        if isinstance(fact, Remeasured) or (isinstance(fact, Result) and not fact.reused)
    ]
    return [(e.key.program_hash, str(e.key.budget)) for e in measured if e.status is not Status.HARNESS_ERROR]


@pytest.mark.slow
def test_fifty_kills_lose_nothing(tmp_path: Path, ours: list[str]) -> None:
    config, chance = write_config(tmp_path, TASK), random.Random(11)
    store_path, shared_before = tmp_path / "kill.db", set(os.listdir("/dev/shm"))
    before: list[tuple[object, ...]] = []
    in_flight: set[object] = set()
    grown = 0
    for kill in range(KILLS):
        kill_at_random(config, chance, ours)
        if store_path.exists():
            now, leases = after_a_kill(store_path)
            assert now[: len(before)] == before, f"kill {kill}: a committed fact was lost or changed"
            assert in_flight <= leases | steps_done(now), f"kill {kill}: work in flight was forgotten"
            grown += len(now) > len(before)
            before, in_flight = now, leases
    assert grown > KILLS // 4, "most kills came before anything was committed; this machine is too slow for the test"
    finish_in_order(config, ours)
    assert set(os.listdir("/dev/shm")) <= shared_before
    with Store.open(store_path, write=False) as store:
        now = committed(store)
        assert store.verify() == []
        assert store.open_leases() == []
        assert now[: len(before)] == before
        assert in_flight <= steps_done(now)
        assert len(evaluated(store)) == len(set(evaluated(store))), "a program was measured twice with one budget"
        assert len(steps_done(now)) == sum(fact[1] == "result" for fact in now)
        noted = store.meta("fingerprint")
    settings = load_config(config).on("cpu")
    language = local_language("cpp", settings.evaluation)
    state = replay_store(store_path, State(make_archipelago(settings, make_operators(settings)), language))
    assert (noted or "").split()[1:] == [state.fingerprint()]


def kill_at_random(config: Path, chance: random.Random, ours: list[str]) -> None:
    process = start(config)
    time.sleep(chance.uniform(0.5, 14.0))
    assert process.poll() is None, f"the search ended by itself\n{log_of(config)}"
    kill_group(process)
    assert wait_for_no_children(besides=ours, seconds=5.0) == [], f"orphans\n{log_of(config)}"


def after_a_kill(path: Path) -> tuple[list[tuple[object, ...]], set[object]]:
    """Check the store as it was left; return its facts and the steps in flight."""
    with Store.open(path, write=False) as store:
        assert store.verify() == []
        now = committed(store)
        leases: set[object] = {proposal.step for proposal in store.open_leases()}
    assert not leases & steps_done(now)
    return now, leases


def steps_done(facts: list[tuple[object, ...]]) -> set[object]:
    return {fact[2] for fact in facts if fact[1] == "result"}


def finish_in_order(config: Path, ours: list[str]) -> None:
    process = start(config)
    time.sleep(14.0)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 143, log_of(config)
    assert children(besides=ours) == []
