"""Five kills (-9) of the whole process group of a real search, at random instants; each time it is resumed."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from archive.journal import EvaluationEntry, Fact, ResultEntry
from archive.store import Store
from evokernel.config.load import load_config
from evokernel.engine.assemble import make_archipelago, make_operators
from evokernel.engine.state_fold import StateFold
from evokernel.errors import StoreError
from evokernel.evaluate.build.confined_compilers import local_language
from evokernel.records.evaluation import Status
from evokernel.testing.replay import replay_store
from tests.e2e.kill_and_resume import children, kill_group, log_of, start, wait_for_no_children, write_config
from tests.support.processes import take_orphans

KILLS = 5
STARTS_WITHIN_S = 300.0
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
        case ResultEntry():
            return (fact.seq, "result", fact.step, fact.program_hash, fact.evaluation)
        case EvaluationEntry():
            return (fact.seq, "evaluation", fact.evaluation)
    return (fact.seq, type(fact).__name__)


def evaluated(store: Store) -> list[tuple[str, str]]:
    """The programs and budgets that were really measured, in order; faults of our own may be tried again."""
    measured = [
        fact.evaluation
        for fact in store.facts()
        if isinstance(fact, EvaluationEntry) or (isinstance(fact, ResultEntry) and not fact.reused)
    ]
    return [(e.key.program_hash, str(e.key.budget)) for e in measured if e.status is not Status.HARNESS_ERROR]


@pytest.mark.slow
def test_kills_lose_nothing(tmp_path: Path, ours: list[str]) -> None:
    config, chance = write_config(tmp_path, TASK), random.Random(11)
    store_path, shared_before = tmp_path / "kill.db", set(os.listdir("/dev/shm"))
    before: list[tuple[object, ...]] = []
    in_flight: set[object] = set()
    for kill in range(KILLS):
        process = start(config)
        wait_for_a_random_instant(process, store_path, chance, config=config)
        kill_group(process)
        assert wait_for_no_children(besides=ours, seconds=60.0) == [], f"orphans\n{log_of(config)}"
        if store_path.exists():
            now, leases = after_a_kill(store_path)
            assert now[: len(before)] == before, f"kill {kill}: a committed fact was lost or changed"
            assert in_flight <= leases | steps_done(now), f"kill {kill}: work in flight was forgotten"
            before, in_flight = now, leases
    finish_in_order(config, store_path, ours)
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
    state = replay_store(store_path, StateFold(make_archipelago(settings, make_operators(settings)), language))
    assert (noted or "").split()[1] == state.fingerprint()


def wait_for_a_random_instant(
    process: "subprocess.Popen[bytes]", store: Path, chance: random.Random, *, config: Path
) -> None:
    """Wait for an instant of a start, one time in five, else for one soon after something new was committed."""
    if chance.random() < 0.2:
        time.sleep(chance.uniform(0.2, 6.0))
    else:
        wait_for_results(process, store, results_in(store) + chance.randint(1, 5), config=config)
        time.sleep(chance.uniform(0.0, 0.4))
    assert process.poll() is None, f"the search ended by itself\n{log_of(config)}"


def wait_for_results(process: "subprocess.Popen[bytes]", store: Path, wanted: int, *, config: Path) -> None:
    end = time.monotonic() + STARTS_WITHIN_S
    while results_in(store) < wanted:
        assert process.poll() is None, f"the search ended by itself\n{log_of(config)}"
        assert time.monotonic() < end, f"nothing new is committed\n{log_of(config)}"
        time.sleep(0.05)


def results_in(path: Path) -> int:
    """Count the results that are committed; none while the store is being made."""
    if not path.exists():
        return 0
    try:
        with Store.open(path, write=False) as store:
            return sum(isinstance(fact, ResultEntry) for fact in store.facts())
    except StoreError:
        return 0


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


def finish_in_order(config: Path, store: Path, ours: list[str]) -> None:
    process = start(config)
    wait_for_results(process, store, results_in(store) + 8, config=config)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=300) == 143, log_of(config)
    assert children(besides=ours) == []
