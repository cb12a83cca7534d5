"""What the end of a session means for its entry."""

from pathlib import Path

import pytest

from evokernel.config.run import parse_config
from evokernel.engine.stoppers import LIMITS
from evokernel.errors import (
    TRY_AGAIN_EXIT,
    ConfigError,
    EvokernelError,
    HarnessError,
    ModelsUnavailable,
    StoreCorrupt,
    StoreLocked,
    may_pass,
)
from evokernel.queue.command import SessionLimits, command_of, session_limits
from evokernel.queue.outcome import SliceExit, entry_after
from evokernel.queue.records import EntryState, QueueEntry, SliceLimits, StoreFacts

ENTRY = QueueEntry(7, 1, Path("/c/gemm.yaml"), Path("/c/gemm.db"), ("threads=2",), EntryState.WAITING, "", 2)
TOLD = SessionLimits(1.25, hours_shared=True, dollars=3.5, dollars_shared=True)
HOURS = LIMITS["hours"].reason.format(limit=1.25)


def after(ending: SliceExit, *, stop: str = "", results: int = 3, told: SessionLimits | None = TOLD) -> QueueEntry:
    return entry_after(ENTRY, ending, told, stop=stop, results=results)[0]


def test_the_end_of_a_slice_is_not_the_end_of_a_search() -> None:
    assert (after(SliceExit(0), stop=HOURS).state, after(SliceExit(0), stop=HOURS).faults) == ("waiting", 0)
    assert after(SliceExit(0), stop=HOURS, results=0).faults == 3
    paid = "budget of $3.5 used: $3.40 spent, the next call could cost $0.20"
    assert after(SliceExit(0), stop=paid).state is EntryState.WAITING
    whole = SessionLimits(1.25, hours_shared=True, dollars=3.5, dollars_shared=True, all_dollars=True)
    assert after(SliceExit(0), stop=paid, told=whole).state is EntryState.DONE


@pytest.mark.parametrize("stop", ["budget of 400 evaluations used", "no better kernel in 50 evaluations"])
def test_a_search_that_has_ended_says_why(stop: str) -> None:
    ended = after(SliceExit(0), stop=stop)
    assert (ended.state, ended.reason) == (EntryState.DONE, stop)
    own = SessionLimits(1.25, hours_shared=False)
    assert after(SliceExit(0), stop=HOURS, told=own).state is EntryState.DONE


def test_only_a_fault_of_the_config_ends_an_entry() -> None:
    refused = after(SliceExit(2, said="noise\nError: c.yaml: budget.huors: unknown key\n"))
    assert (refused.state, refused.reason) == (EntryState.FAILED, "c.yaml: budget.huors: unknown key")
    for ending, said in (
        (SliceExit(TRY_AGAIN_EXIT, said="Error: the disk\n  is full"), "the disk is full"),
        (SliceExit(1, said="Traceback\nMemoryError"), "exit code 1; MemoryError"),
        (SliceExit(-9), "ended by signal 9"),
        (SliceExit(2, said="Error: no GPU", device_lost=True), "no GPU is visible any more; no GPU"),
        (SliceExit(None, said="cannot fork"), "cannot fork"),
    ):
        later = after(ending, results=9)
        assert (later.state, later.reason, later.faults) == (EntryState.WAITING, said, 3)


def test_a_session_that_was_told_to_stop_is_no_fault() -> None:
    for ending in (SliceExit(143, asked=True), SliceExit(-9, asked=True), SliceExit(None)):
        assert after(ending, told=None).faults == 0


def test_errors_that_may_pass() -> None:
    passing = [HarnessError("x"), StoreLocked("x"), ModelsUnavailable("x")]
    lasting: list[EvokernelError] = [ConfigError("x"), StoreCorrupt("x"), ModelsUnavailable("x", final=True)]
    assert [may_pass(error) for error in passing] == [True] * 3
    assert [may_pass(error) for error in lasting] == [False] * 3


def test_the_command_has_the_smaller_limits() -> None:
    models = {"models": [{"name": "m", "model": "openai/x"}]}
    raw = {"task": "gemm", "islands": [{"name": "one", "operators": {"tune": 1}}], **models}
    free = parse_config({**raw, "budget": {"hours": 100, "dollars": 50}}, "test")
    before, limits = StoreFacts(seconds=3600.0, dollars=2.0), SliceLimits(1000.0, 4.0)
    told = session_limits(free, before, limits)
    assert (told.hours_shared, told.dollars, told.dollars_shared) == (True, 6.0, True)
    command = command_of(ENTRY, told)
    assert command[command.index("evolve") + 1 :] == [
        "/c/gemm.yaml",
        *("--store", "/c/gemm.db"),
        *("--set", "threads=2"),
        *("--set", f"budget.hours={4420 / 3600:.6f}"),
        *("--dollars", "6.0"),
    ]
    tight = parse_config({**raw, "budget": {"hours": 1.1, "dollars": 5}}, "test")
    told = session_limits(tight, before, limits)
    assert (told.hours, told.hours_shared, told.dollars, told.dollars_shared) == (1.1, False, 5.0, False)
