"""The process in waiting: one at a time, given out settled, failed ones ended and replaced."""

from collections.abc import Iterator

import pytest

from evokernel.errors import HarnessError, WorkerDied
from evokernel.evaluate.sandbox.standby import StandbyProcess


class Scripted:
    """A process that settles, or does not."""

    def __init__(self, pid: int, *, fails: bool) -> None:
        self.pid = pid
        self._fails = fails
        self.settled = False
        self.closed = False

    def wait_ready(self) -> None:
        if self._fails:
            raise WorkerDied("no context")
        self.settled = True

    def close(self) -> None:
        self.closed = True


def spare_of(*fails: bool) -> tuple[StandbyProcess[Scripted], list[Scripted]]:
    started: list[Scripted] = []
    script: Iterator[bool] = iter(fails)

    def start() -> Scripted:
        started.append(Scripted(len(started) + 1, fails=next(script)))
        return started[-1]

    return StandbyProcess(start, "worker"), started


def test_one_in_waiting_is_given_out_settled_and_only_once() -> None:
    spare, started = spare_of(False, False)
    spare.begin()
    spare.begin()
    assert spare.pids() == {1}
    first = spare.take()
    assert first is started[0]
    assert first.settled
    assert spare.pids() == set()
    assert spare.take() is started[1]


def test_one_that_fails_is_ended_and_the_next_one_taken() -> None:
    spare, started = spare_of(True, False)
    assert spare.take() is started[1]
    assert started[0].closed


def test_after_two_failures_it_says_what_could_not_be_had() -> None:
    spare, started = spare_of(True, True)
    with pytest.raises(HarnessError, match="no worker could make a context on the GPU: no context"):
        spare.take()
    assert [each.closed for each in started] == [True, True]


def test_settling_waits_for_it_and_lets_a_failed_one_go() -> None:
    spare, started = spare_of(True, False)
    spare.wait_ready()
    assert started[0].closed
    assert spare.pids() == set()
    spare.wait_ready()
    assert started[1].settled
    assert spare.pids() == {2}


def test_closing_ends_the_one_in_waiting_and_is_allowed_twice() -> None:
    spare, started = spare_of(False)
    spare.begin()
    spare.close()
    spare.close()
    assert started[0].closed
