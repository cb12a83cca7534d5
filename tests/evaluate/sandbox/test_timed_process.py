"""The scheduler's account of a batch, and when the judge's clock is believed in its place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evokernel.evaluate.sandbox.timed_process import OWN_WAITS, SchedulerUsage

BEFORE = SchedulerUsage(ran_ns=5_000_000, queued_ns=1_000, waits=7)
TIMES = st.integers(0, 10**10)


@pytest.mark.parametrize(
    ("ran_ns", "queued_ns", "waits", "expected"),
    [
        (990_000, 0, 2, 990_000),
        (300_000, 700_000, 2, 300_000),  # preempted
        (400_000, 0, 2, 400_000),  # the judge was woken late
        (1_200_000, 0, 2, 1_200_000),  # it worked on after "done"
        (10_000, 0, OWN_WAITS + 1, 1_000_000),  # it may have waited for somebody who worked for it
        (0, 0, 2, 1_000_000),  # the account stands still, as after a pause of a virtual machine
        (50_000, 0, 2, 1_000_000),
        (50_000, 900_000, 2, 50_000),
        (0, 2_000_000, 2, 1_000_000),
    ],
)
def test_what_counts(ran_ns: int, queued_ns: int, waits: int, expected: int) -> None:
    now = SchedulerUsage(BEFORE.ran_ns + ran_ns, BEFORE.queued_ns + queued_ns, BEFORE.waits + waits)
    assert now.time_since(BEFORE, 1_000_000) == expected


@given(TIMES, TIMES, st.integers(0, 9), st.integers(1, 10**10))
def test_a_batch_takes_time_and_no_less_than_the_account(ran_ns: int, queued_ns: int, waits: int, elapsed: int) -> None:
    found = SchedulerUsage(ran_ns, queued_ns, waits).time_since(SchedulerUsage(), elapsed)
    assert found > 0
    assert found >= ran_ns
    assert found in (ran_ns, elapsed)
