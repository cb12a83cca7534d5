"""Which entry of a night runs next, for how long, and for how much money."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evokernel.config.load import parse_config
from evokernel.queue.choice import (
    WaitingEntry,
    choose,
    measured_gain,
    seconds_left,
    slice_dollars,
    slice_seconds,
)
from evokernel.queue.command import CLOSING_S, agent_s, least_seconds, session_limits
from evokernel.queue.records import (
    EntryState,
    EntryUsage,
    QueueEntry,
    SharedBudget,
    SharedUsage,
    SliceLimits,
    StoreFacts,
)

Gains = tuple[tuple[float, float], ...]


def contender(number: int, *, gains: Gains = (), seconds: float | None = None) -> WaitingEntry:
    entry = QueueEntry(number, 1, Path("a.yaml"), Path("a.db"), (), EntryState.WAITING, "", 0)
    spent = sum(hours for hours, _ in gains) * 3600 if seconds is None else seconds
    return WaitingEntry(entry, EntryUsage(spent, 0.0, gains))


def test_each_gets_a_start_before_any_goes_on() -> None:
    hot = contender(1, gains=((1.0, 2.0),))
    assert choose([hot, contender(2, seconds=90), contender(3)]).entry.id == 3
    assert choose([hot, contender(2, seconds=90)]).entry.id == 2


def test_time_goes_to_the_one_that_gains() -> None:
    assert choose([contender(1, gains=((0.5, 0.0),)), contender(2, gains=((0.5, 0.3),))]).entry.id == 2


def test_new_gains_count_more_than_old_ones() -> None:
    was, is_now = ((0.5, 0.0), (0.5, 0.4)), ((0.5, 0.4), (0.5, 0.0))
    assert choose([contender(1, gains=was), contender(2, gains=is_now)]).entry.id == 2


def test_entries_without_gains_take_turns() -> None:
    gains: dict[int, Gains] = {1: (), 2: (), 3: ()}
    chosen = []
    for _ in range(9):
        number = choose([contender(each, gains=had) for each, had in gains.items()]).entry.id
        gains[number] = ((0.5, 0.0), *gains[number])
        chosen.append(number)
    assert [chosen.count(number) for number in gains] == [3, 3, 3]


def test_an_entry_that_stops_gaining_falls_behind() -> None:
    hot: Gains = ((0.5, 0.5),)
    while choose([contender(1, gains=hot), contender(2, gains=((0.5, 0.0),))]).entry.id == 1:
        hot = ((0.5, 0.0), *hot)
    assert 2 <= len(hot) <= 7


def test_the_first_kernels_of_a_search_are_no_gain() -> None:
    first = StoreFacts(log_speedup=2.0, half_log_speedup=1.9)
    assert measured_gain(StoreFacts(), first) - 0.2 < 1e-9
    assert measured_gain(StoreFacts(), StoreFacts(log_speedup=2.0)) == 0.0
    assert measured_gain(StoreFacts(log_speedup=1.0), StoreFacts(log_speedup=1.5)) == 0.5
    assert measured_gain(StoreFacts(log_speedup=1.0), StoreFacts(log_speedup=0.9)) == 0.0


def test_a_clock_that_is_set_back_gives_no_more_time() -> None:
    until = SharedBudget(until=1000.0 + 9 * 3600)
    used = SharedUsage(seconds=8 * 3600)
    assert seconds_left(until, used, added=1000.0, now=1000.0 + 8 * 3600) == 3600
    assert seconds_left(until, used, added=1000.0, now=1000.0 - 5 * 3600) == 3600
    assert seconds_left(SharedBudget(), used, added=0.0, now=5.0) is None
    both = SharedBudget(until=1000.0 + 9 * 3600, hours=8.5)
    assert seconds_left(both, used, added=1000.0, now=1000.0) == 1800


@given(st.floats(1, 1e6), st.integers(1, 20), st.integers(0, 19))
def test_a_slice_fits_in_the_time_that_is_left(left: float, entries: int, unstarted: int) -> None:
    length = slice_seconds(left, entries=entries, unstarted=min(unstarted, entries - 1))
    assert 0 < length <= left


def test_a_slice_is_long_enough_for_calls_of_agents() -> None:
    agent = {"name": "coder", "agent": "coder --print", "timeout_s": 1200}
    islands = [{"name": "one", "operators": {"mutate": 1}}]
    config = {"task": "gemm", "budget": {"hours": 9}, "islands": islands}
    call_s = agent_s(parse_config({**config, "models": [agent]}, "test"))
    assert (call_s, agent_s(parse_config(config, "test"))) == (1200.0, 0.0)
    least_s = least_seconds(call_s)
    assert (least_seconds(0.0), least_s) == (0.0, 2 * 1200.0 + CLOSING_S)
    length = slice_seconds(4 * 3600.0, entries=5, unstarted=4, least_s=least_s)
    assert length == slice_seconds(None, entries=1, unstarted=0, least_s=least_s) == least_s
    told = session_limits(StoreFacts(seconds=3600.0), SliceLimits(length), call_s=call_s)
    assert told.hours == pytest.approx((3600 + 1200) / 3600, abs=1e-6)  # a call that begins then has 1200 s
    assert slice_seconds(900.0, entries=5, unstarted=4, least_s=least_s) == 900.0
    assert session_limits(StoreFacts(), SliceLimits(900.0), call_s=call_s).hours > 0.05


def test_time_and_money_are_kept_for_those_that_wait_for_their_start() -> None:
    assert slice_seconds(600.0, entries=2, unstarted=1) == 300.0
    assert slice_seconds(480.0, entries=2, unstarted=1) == 240.0
    assert slice_seconds(8 * 3600.0, entries=5, unstarted=0) == 8 * 3600 / 20
    assert slice_dollars(SharedBudget(dollars=10.0), SharedUsage(dollars=4.0), unstarted=2) == 2.0
    assert slice_dollars(SharedBudget(dollars=10.0), SharedUsage(dollars=14.0), unstarted=0) == 0.0
    assert slice_dollars(SharedBudget(), SharedUsage(), unstarted=0) is None
