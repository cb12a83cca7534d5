"""Fifty kills (-9) of the whole process group of a real search, at random instants; each time it is resumed."""

import ctypes
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

KILLS = 50
TASK = Path(__file__).parent / "small_task.py"
PR_SET_CHILD_SUBREAPER = 36


@pytest.fixture
def subreaper() -> Iterator[None]:
    """Become the parent of every orphan, so that none can hide."""
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    yield
    libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


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
    rows = []
    for fact in store.facts():
        if isinstance(fact, Remeasured) or (isinstance(fact, Result) and not fact.reused):
            if fact.evaluation.status is not Status.HARNESS_ERROR:
                rows.append((fact.evaluation.key.program_hash, str(fact.evaluation.key.budget)))
    return rows


@pytest.mark.slow
@pytest.mark.usefixtures("subreaper")
def test_fifty_kills_lose_nothing(tmp_path: Path) -> None:
    config, chance = write_config(tmp_path, TASK), random.Random(11)
    store_path, shared_before = tmp_path / "kill.db", set(os.listdir("/dev/shm"))
    before: list[tuple[object, ...]] = []
    in_flight: set[int] = set()
    grown = 0
    for kill in range(KILLS):
        process = start(config)
        time.sleep(chance.uniform(0.5, 14.0))
        assert process.poll() is None, f"kill {kill}: the search ended by itself\n{log_of(config)}"
        kill_group(process)
        assert wait_for_no_children(seconds=5.0) == [], f"kill {kill}: orphans\n{log_of(config)}"
        if not store_path.exists():
            continue
        with Store.open(store_path, write=False) as store:
            assert store.verify() == []
            now = committed(store)
            assert now[: len(before)] == before, f"kill {kill}: a committed fact was lost or changed"
            leases = {proposal.step for proposal in store.open_leases()}
            done = {fact[2] for fact in now if fact[1] == "result"}
            assert not leases & done
            assert in_flight <= leases | done, f"kill {kill}: work in flight was forgotten"
            grown += len(now) > len(before)
            before, in_flight = now, leases
    assert grown > KILLS // 4, "most kills came before anything was committed; this machine is too slow for the test"
    process = start(config)
    time.sleep(12.0)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 143, log_of(config)
    assert children() == []
    assert set(os.listdir("/dev/shm")) <= shared_before
    settings = load_config(config)
    with Store.open(store_path, write=False) as store:
        assert store.verify() == []
        assert store.open_leases() == []
        assert committed(store)[: len(before)] == before
        assert len(evaluated(store)) == len(set(evaluated(store))), "a program was measured twice with one budget"
        steps = [fact[2] for fact in committed(store) if fact[1] == "result"]
        assert len(steps) == len(set(steps))
        assert in_flight <= set(steps)
        noted = store.meta("fingerprint")
    language = local_language("cpp", settings.evaluation)
    state = replay_store(store_path, State(make_archipelago(settings, make_operators(settings)), language))
    assert noted == f"{state.archipelago.results} {state.fingerprint()}"
