"""The runner in use and the one in waiting, against processes without a GPU that misbehave."""

import contextlib
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from evokernel.errors import HarnessError, KernelFault, WorkerError
from evokernel.evaluate.artifact_mode.runner_pool import CANDIDATES_PER_RUNNER, RunnerPool
from tests.evaluate.artifact_mode.stand_in_runner import (
    NS_PER_CALL,
    WRONG,
    StandInHost,
    batch,
    descriptors_held,
    go_through,
    is_gone,
    load,
    said,
    wait_for_end,
)


@pytest.fixture
def pool(host: StandInHost) -> Iterator[RunnerPool]:
    with RunnerPool(host, spin=False) as made:
        yield made


def test_the_same_runner_is_taken_until_it_has_ended(pool: RunnerPool):
    first = pool.take()
    load(first)
    assert pool.take() is first
    with pytest.raises(KernelFault):
        load(first, on="load", **said("CUDA error 700"))
    second = pool.take()
    assert second is not first
    assert second.alive
    load(second)
    assert batch(second, 0).device_ns == NS_PER_CALL


@pytest.mark.parametrize("name", WRONG)
def test_there_is_another_runner_after_whatever_went_wrong(pool: RunnerPool, name: str):
    deed, error, _ = WRONG[name]
    first = pool.take()
    with pytest.raises(error):
        go_through(first, on="go", **deed)
    load(pool.take())
    assert is_gone(first.pid)


def test_a_runner_that_died_in_its_sleep_is_not_taken(pool: RunnerPool):
    first = pool.take()
    os.kill(first.pid, signal.SIGKILL)
    wait_for_end(first.pid)
    assert pool.take().pid != first.pid


def test_a_runner_serves_so_many_candidates(pool: RunnerPool):
    first = pool.take()
    for _ in range(CANDIDATES_PER_RUNNER):
        assert pool.take() is first
        load(first)
    assert pool.take() is not first
    assert is_gone(first.pid)


def test_the_runner_in_waiting_is_the_next_one(pool: RunnerPool):
    first = pool.take()
    pool.wait_ready()
    (waiting,) = pool.pids() - {first.pid}
    first.close()
    assert pool.take().pid == waiting
    assert len(pool.pids()) == 2
    assert not any(is_gone(pid) for pid in pool.pids())


def test_a_runner_in_waiting_that_died_is_replaced(pool: RunnerPool):
    first = pool.take()
    pool.wait_ready()
    (waiting,) = pool.pids() - {first.pid}
    os.kill(waiting, signal.SIGKILL)
    wait_for_end(waiting)
    first.close()
    assert pool.take().alive


@pytest.mark.parametrize("deed", [{"exits": 1}, {"says": "what"}, {"signal": int(signal.SIGKILL)}])
def test_a_context_that_could_not_be_made_is_tried_once_more(host: StandInHost, deed: dict[str, Any]):
    host.scripts += [{"on": "up", **deed}]
    with RunnerPool(host, spin=False) as pool:
        assert pool.take().alive
    host.scripts += [{"on": "up", **deed}, {"on": "up", **deed}]
    with RunnerPool(host, spin=False) as pool, pytest.raises(HarnessError, match="no runner could make a context"):
        pool.take()


def test_nothing_is_left_of_a_pool(host: StandInHost):
    before = descriptors_held()
    use_up(host)
    assert not host.processes
    assert descriptors_held() == before


def use_up(host: StandInHost) -> None:
    with RunnerPool(host, spin=False) as pool:
        assert len(pool.pids()) == 1
        for plan in ({"on": "go", "exits": 1}, {"on": "load", **said("no")}, {"on": "never"}):
            with contextlib.suppress(WorkerError):
                go_through(pool.take(), **plan)
        pids = pool.pids()
        assert len(pids) == 2
        pool.close()
        pool.close()
        assert pool.pids() == set()
        assert all(is_gone(pid) for pid in pids)


def test_a_runner_stays_the_pools_when_none_can_be_started_behind_it(host: StandInHost):
    with RunnerPool(host, spin=False) as pool:
        host.exhausted = True
        with contextlib.suppress(HarnessError):
            pool.take()
        host.exhausted = False
        assert pool.take().alive
    assert not host.processes
