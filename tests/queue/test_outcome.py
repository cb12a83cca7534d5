"""What the end of a session means for its entry."""

from pathlib import Path

import pytest

from evokernel.config.load import parse_config
from evokernel.config.run import BudgetConfig
from evokernel.config.session_budget import session_budget
from evokernel.engine.stoppers import stopper_from
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
from evokernel.queue.command import SessionLimits, command_of, rules_go_on, session_limits
from evokernel.queue.outcome import SliceExit, entry_after
from evokernel.queue.records import EntryState, QueueEntry, SliceLimits, StoreFacts
from evokernel.records.run import Progress

ENTRY = QueueEntry(7, 1, Path("/c/gemm.yaml"), Path("/c/gemm.db"), ("threads=2",), EntryState.WAITING, "", 2)
TOLD = SessionLimits(1.25, dollars=3.5)
HOURS = "session's limit of 1.25 h used"


def after(ending: SliceExit, *, stop: str = "", results: int = 3, told: SessionLimits | None = TOLD) -> QueueEntry:
    return entry_after(ENTRY, ending, told, stop=stop, results=results)[0]


def test_the_end_of_a_slice_is_not_the_end_of_a_search() -> None:
    assert (after(SliceExit(0), stop=HOURS).state, after(SliceExit(0), stop=HOURS).faults) == ("waiting", 0)
    assert after(SliceExit(0), stop=HOURS, results=0).faults == 3
    paid = "session's limit of $3.5 used: $3.40 spent, the next call could cost $0.20"
    assert after(SliceExit(0), stop=paid).state is EntryState.WAITING
    whole = SessionLimits(1.25, dollars=3.5, all_dollars=True)
    assert after(SliceExit(0), stop=paid, told=whole).state is EntryState.DONE


@pytest.mark.parametrize(
    "stop",
    ["budget of 1.25 h used", "budget of $3.5 used: $3.4 spent, the next", "no better kernel in 50 evaluations"],
)
def test_a_search_that_has_ended_says_why(stop: str) -> None:
    ended = after(SliceExit(0), stop=stop)
    assert (ended.state, ended.reason) == (EntryState.DONE, stop)


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


def test_the_command_has_the_limits_of_its_slice() -> None:
    told = session_limits(StoreFacts(seconds=3600.0, dollars=2.0), SliceLimits(1000.0, 4.0))
    command = command_of(ENTRY, told)
    assert command[command.index("evolve") + 1 :] == [
        "/c/gemm.yaml",
        *("--store", "/c/gemm.db"),
        *("--set", "threads=2"),
        *("--session-hours", f"{4420 / 3600:.6f}"),
        *("--session-dollars", "6.0"),
    ]


def test_rules_go_on_as_the_session_would_have_it() -> None:
    islands = [{"name": "one", "operators": {"tune": 1}}]
    raw = {"task": "gemm", "budget": {"hours": 9}, "islands": islands}
    plain = parse_config(raw, "test")
    asking = parse_config({**raw, "models": [{"name": "m", "model": "openai/x"}]}, "test")
    assert not rules_go_on(asking, StoreFacts(models=True, when_spent="rules"))
    assert rules_go_on(plain, StoreFacts(models=True, when_spent="rules"))  # models of --model, in the store
    assert not rules_go_on(plain, StoreFacts(models=True, when_spent="end"))
    assert rules_go_on(plain, StoreFacts())  # models of the environment


def test_a_session_ends_by_the_smaller_limits_and_says_whose_they_are() -> None:
    used = Progress(9, 2 * 3600.0, cost_usd=7.0, since_improvement=0, best_speedup=1.0, roofline_share=None)
    for run, said in (
        (BudgetConfig(hours=100), HOURS),
        (BudgetConfig(plateau=100), HOURS),
        (BudgetConfig(hours=1.1), "budget of 1.1 h used"),
        (BudgetConfig(hours=100, evaluations=8), "budget of 8 evaluations used"),
    ):
        session = session_budget(run, hours=1.25, dollars=None, cap=None)
        assert stopper_from(session).reason(used) == said
    paid = session_budget(BudgetConfig(hours=3, dollars=1.0), hours=9.0, dollars=6.0, cap=None)
    assert (paid.dollars, paid.own) == (6.0, frozenset({"dollars"}))  # a cap of an earlier session gives way
    kept = session_budget(BudgetConfig(hours=3, dollars=1.0), hours=9.0, dollars=6.0, cap=1.0)
    assert (kept.dollars, kept.own) == (1.0, frozenset())
