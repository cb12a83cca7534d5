"""Two engines on one store, locks that are left or removed, files taken from under an engine, and many who hand in."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from archive.journal import Fact, InboxEntry, ResultEntry
from archive.store import Store
from evokernel.records.candidate import Candidate
from evokernel.report.status import RunState, read_status
from tests.crash_safety.processes import (
    DEADLINE_S,
    Process,
    ended,
    environment,
    evokernel,
    refusal,
    running,
    sound_facts,
    toy,
    wait_for_facts,
)
from tests.e2e.kill_and_resume import write_config
from tests.support.serving import wait_until

TASK = Path(__file__).parents[1] / "e2e" / "small_task.py"
EVALUATIONS = 20
ENDLESS = 10_000_000
"""Evaluations of an engine that is ended from outside: on a busy machine a test may come late."""
WRITERS = 10
EACH = 6

pytestmark = pytest.mark.slow


def test_a_second_engine_is_refused_and_the_first_is_not_disturbed(path: Path) -> None:
    config = write_config(path.parent, TASK)
    with running(toy(path, ENDLESS)) as first:
        wait_for_facts(path, 2, process=first)
        for more in ([], ["--fresh"]):
            said = refusal("evolve", config, "--store", path, *more, cwd=path.parent)
            assert f"another evokernel (process {first.pid}) is writing {path}" in said
        code, _, err = ended(toy(path, ENDLESS))
        assert (code, f"process {first.pid}" in err) == (2, True)
        goes_on_undisturbed(path, first)


def goes_on_undisturbed(path: Path, first: Process) -> None:
    """Wait until the only engine of a store has done more, and stop it."""
    before = sound_facts(path)
    wait_for_facts(path, len(before) + 3, process=first)
    first.send_signal(signal.SIGTERM)
    code, _, err = ended(first)
    assert (code, err) == (143, "")
    assert sound_facts(path)[: len(before)] == before
    with Store.open(path, write=False) as store:
        assert store.database.number("SELECT count(*) FROM sessions") == 1


def more_than(facts: list[Fact]) -> int:
    """Return a budget that lets an engine do something more than it has done."""
    return sum(isinstance(fact, ResultEntry) for fact in facts) + EVALUATIONS


def test_the_lock_of_a_dead_engine_is_no_obstacle(path: Path) -> None:
    with running(toy(path, ENDLESS)) as first:
        wait_for_facts(path, 4, process=first)
        first.kill()
        first.wait()
    before = sound_facts(path)
    lock = path.with_name(path.name + ".lock")
    assert lock.read_text().strip() == str(first.pid)
    lock.write_text(f"{os.getpid()}\n")  # even where the number has gone to somebody who lives
    code, out, err = ended(toy(path, more_than(before)))
    assert (code, err) == (0, ""), out
    assert sound_facts(path)[: len(before)] == before


def test_a_lock_that_somebody_removes_is_taken_anew(path: Path) -> None:
    lock = path.with_name(path.name + ".lock")
    with running(toy(path, ENDLESS)) as first:
        wait_for_facts(path, 2, process=first)
        lock.unlink()
        deadline = time.monotonic() + DEADLINE_S
        while not (lock.exists() and lock.read_text()) and time.monotonic() < deadline:
            time.sleep(0.02)
        code, _, err = ended(toy(path, ENDLESS))
        assert (code, f"process {first.pid}" in err) == (2, True)
        goes_on_undisturbed(path, first)


@pytest.mark.parametrize("what", ["removed", "replaced", "log removed"])
def test_files_taken_from_under_an_engine_are_saved_under_another_name(path: Path, what: str) -> None:
    with running(toy(path, ENDLESS, seconds=0.1)) as first:
        wait_for_facts(path, 6, process=first)
        if what == "replaced":
            other = path.with_name("other.db")
            Store.open(other, write=True).close()
            other.replace(path)
        else:
            path.with_name(path.name + ("-wal" if what == "log removed" else "")).unlink()
        code, _, err = ended(first)
    assert code == 2
    assert "somebody has removed or replaced" in err
    assert "run the same command to go on" in err
    (saved,) = path.parent.glob("run.*-*.db")
    assert str(saved) in err
    before = sound_facts(saved)
    assert len(before) >= 6
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    shutil.move(saved, path)
    code, out, err = ended(toy(path, more_than(before)))
    assert (code, err) == (0, ""), out
    assert sound_facts(path)[: len(before)] == before


HAND_IN = """
import sys
from archive.store import Store
from tests.support.fakes import WIDE_TOY
store, writer, each = sys.argv[1], sys.argv[2], int(sys.argv[3])
for number in range(each):
    source = f"// {number} of writer {writer}\\n" + WIDE_TOY.replace("run()", f"run_{writer}_{number}()")
    Store.inbox_put(store, "source", {"source": source}, author=writer)
"""


def test_what_ten_processes_hand_in_is_judged_once_though_the_engine_is_killed(path: Path) -> None:
    with running(toy(path, ENDLESS)) as engine:
        wait_for_facts(path, 2, process=engine)
        command = [sys.executable, "-c", HAND_IN, str(path)]
        writers = [
            subprocess.Popen([*command, str(writer), str(EACH)], env=environment(), stderr=subprocess.PIPE, text=True)
            for writer in range(WRITERS)
        ]
        time.sleep(0.5)
        engine.kill()
        engine.wait()
    with running(toy(path, ENDLESS)) as engine:
        for writer in writers:
            with writer:
                _, err = writer.communicate(timeout=DEADLINE_S)
            assert (writer.returncode, err) == (0, "")
        wait_until(lambda: len(handed_in_and_judged(path)) == WRITERS * EACH)
        engine.send_signal(signal.SIGTERM)
        code, _, err = ended(engine)
    assert (code, err) == (143, "")
    facts = sound_facts(path)
    taken = [fact for fact in facts if isinstance(fact, InboxEntry)]
    assert Counter(entry.author for entry in taken) == {str(writer): EACH for writer in range(WRITERS)}
    assert [entry.id for entry in taken] == list(range(1, WRITERS * EACH + 1))
    judged = Counter(fact.proposal.candidate.id for fact in facts if isinstance(fact, ResultEntry))
    handed_in = handed_in_and_judged(path)
    assert len(handed_in) == WRITERS * EACH
    assert {name: judged[name] for name in handed_in} == dict.fromkeys(handed_in, 1)


def handed_in_and_judged(path: Path) -> set[str]:
    """Return the candidates that people handed in and that have a result."""
    with Store.open(path, write=False) as store:
        facts = list(store.facts())
    handed_in = {Candidate(fact.payload["source"], "cpp").id for fact in facts if isinstance(fact, InboxEntry)}
    return handed_in & {fact.proposal.candidate.id for fact in facts if isinstance(fact, ResultEntry)}


def test_a_clock_that_is_set_back_changes_nothing(path: Path, interposer: Path) -> None:
    clock = path.with_name("clock")
    clock.write_text("0")
    variables: dict[str, Any] = {"LD_PRELOAD": str(interposer), "INTERPOSE_CLOCK": str(clock)}
    with running(toy(path, ENDLESS, seconds=0.1, **variables)) as first:
        wait_for_facts(path, 6, process=first)
        clock.write_text("-86400")
        wait_for_facts(path, 10, process=first)
        deadline, said = time.monotonic() + DEADLINE_S, ""
        while '"state": "running"' not in said:  # it is so with the next heartbeat
            assert time.monotonic() < deadline, said
            said = evokernel("status", path, "--json", cwd=path.parent, **variables).stdout
        first.kill()
        first.wait()
    before = sound_facts(path)
    enough = more_than(before)
    clock.write_text("-172800")
    killed = evokernel("status", path, "--json", cwd=path.parent, **variables)
    assert '"state": "killed"' in killed.stdout, killed.stderr
    code, out, err = ended(toy(path, enough, **variables))
    assert (code, err) == (0, "")
    assert "another state" not in out
    assert f"budget of {enough} evaluations used" in out
    after = sound_facts(path)
    assert after[: len(before)] == before
    moments = [fact.at for fact in after]
    assert moments != sorted(moments), "the clock was not set back"
    with Store.open(path, write=False) as store:
        assert read_status(store).state is RunState.STOPPED
        assert 0 < store.spent().seconds < DEADLINE_S
    code, out, err = ended(toy(path, enough, **variables))
    assert (code, err, "another state" in out) == (0, "", False)
