"""The queue as a user has it: its commands, a kill, a config that cannot be used, a month of nights."""

import json
import os
import signal
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from archive.store import Store
from benchmarks.queue_month import Month
from evokernel.cli.queue import next_moment
from evokernel.queue.file import KEPT_NIGHTS, QueueFile
from evokernel.queue.records import EntryState, SharedBudget, SliceLimits, StoreFacts
from evokernel.queue.service import slurm_script, systemd_unit
from evokernel.queue.session import identity_of
from tests.cli.conftest import Call
from tests.support.serving import wait_until
from tests.support.stores import fill_store

ROOT = Path(__file__).parents[2]
TOY = Path(__file__).parent / "toy_queue.py"
CONFIG = "task: {task}\nbudget: {{evaluations: 12}}\nislands: [{{name: one, operators: {{tune: 1}}}}]\n"


@pytest.fixture
def configs(project: Path) -> list[str]:
    for name in ("one", "two"):
        (project / f"{name}.yaml").write_text(CONFIG.format(task="gemm"))
    return ["one.yaml", "two.yaml"]


def test_entries_are_added_kept_back_and_taken_out(project: Path, configs: list[str], call: Call) -> None:
    added = call("queue", "add", *configs, "--hours", "6", "--dollars", "10", "--set", "threads=2")
    assert "night 1: 6 h, $10.00; entries 1, 2" in added.stdout, added.stderr
    assert call("queue", "pause", "2").exit_code == 0
    listed = call("queue", "list").stdout
    assert "waiting" in listed
    assert "paused" in listed
    again = call("queue", "pause", "2", "1")
    assert (again.exit_code, again.stderr) == (2, "Error: entry 2 is paused; nothing was changed\n")
    assert call("queue", "remove", "2").exit_code == 0
    assert "two" not in call("queue", "list").stdout
    with QueueFile.open(project / "runs" / "queue.sqlite") as queue:
        (entry,) = queue.entries()
        assert (entry.config, entry.store) == (project / "one.yaml", project / "runs" / "one.db")
        assert (entry.state, entry.settings) == (EntryState.WAITING, ("threads=2",))


def test_bad_input_is_a_message(project: Path, configs: list[str], call: Call) -> None:
    (project / "bad.yaml").write_text("task: gemm\n")
    for arguments, said in (
        (("add", "bad.yaml", "one.yaml"), "bad.yaml cannot be used"),
        (("add", "one.yaml", "one.yaml"), "writes"),
        (("add", "one.yaml", "--until", "25:00"), "expected a time of the clock"),
        (("add", "one.yaml", "--until", "2020-01-01"), "has passed"),
        (("pause", "1"), "there is no entry 1"),
        (("list", "--queue", "none.sqlite"), "there is no queue at none.sqlite"),
        (("list", "--queue", "bad.yaml"), "is no store: it does not begin as one"),
    ):
        result = call("queue", *arguments)
        assert result.exit_code == 2, arguments
        assert said in result.stderr
    with QueueFile.open(project / "runs" / "queue.sqlite") as queue:
        assert queue.nights() == []


def test_names_that_name_nothing_are_told_at_once(project: Path, configs: list[str], call: Call) -> None:
    (project / "task.yaml").write_text(CONFIG.format(task="gem"))
    (project / "operator.yaml").write_text(CONFIG.format(task="gemm").replace("tune", "tuen"))
    result = call("queue", "add", "task.yaml", "one.yaml", "operator.yaml")
    assert result.exit_code == 2
    assert "task.yaml:1:1: task: unknown task 'gem'" in result.stderr
    assert "operator.yaml:3:35: islands.0.operators.tuen: unknown operator 'tuen'" in result.stderr
    assert "nothing was added" in result.stderr
    assert not (project / "runs" / "queue.sqlite").exists()


def test_the_end_of_a_night_is_told_where_no_session_could(project: Path, call: Call) -> None:
    receiver = "notify: [{command: [sh, -c, 'cat >> told.jsonl'], on: [end]}]\n"
    (project / "one.yaml").write_text(CONFIG.format(task="gemm") + receiver)
    added = call("queue", "add", "one.yaml", "--hours", "0.01")
    assert added.exit_code == 0, added.stderr
    ended = call("queue", "run")
    assert "night 1 has ended: the time of its night is used" in ended.stdout, ended.stderr
    (told,) = (json.loads(line) for line in (project / "told.jsonl").read_text().splitlines())
    assert (told["event"], told["text"], told["task"]) == ("end", "the time of its night is used", "gemm")
    assert told["store"] == str(project / "runs" / "one.db")


def test_a_slice_whose_process_is_gone_is_told(project: Path, configs: list[str], call: Call) -> None:
    call("queue", "add", "one.yaml", "--hours", "6")
    with QueueFile.open(project / "runs" / "queue.sqlite") as queue:
        number = queue.begin_slice(1, SliceLimits(60.0), StoreFacts(), at=0.0)
        queue.beat(number, 1.0, process=identity_of(os.getpid()))
        lock = project / "runs" / "queue.sqlite.lock"
        lock.write_text(f"{os.getpid()}\n")
        assert "in a slice" in call("queue", "list").stdout
        lock.write_text("0\n")
        assert "ending" in call("queue", "list").stdout
        with subprocess.Popen(["sleep", "60"]) as process:
            queue.beat(number, 1.0, process=identity_of(process.pid))
            process.kill()
    listed = " ".join(call("queue", "list").stdout.split())
    assert "in a slice" not in listed
    assert "its slice was cut short" in listed


def test_a_night_too_short_to_measure_anew_says_so(project: Path, configs: list[str], call: Call) -> None:
    added = call("queue", "add", *configs, "--hours", "0.05")
    assert "1 min 30 s for each is short" in added.stderr
    assert "short" not in call("queue", "add", "one.yaml", "--hours", "6", "--queue", "other").stderr
    fill_store(project / "runs" / "one.db", crowned=False)
    with QueueFile.open(project / "runs" / "queue.sqlite") as queue:
        queue.end_night(1, "the time of its night is used")
    listed = " ".join(call("queue", "list").stdout.split())
    assert "in the search" in listed
    assert "best kernels that were not measured anew" in listed


def test_the_next_seven_o_clock() -> None:
    evening, morning = datetime(2026, 11, 25, 22, 0), datetime(2026, 11, 25, 6, 0)
    assert datetime.fromtimestamp(next_moment("07:00", evening)) == datetime(2026, 11, 26, 7, 0)
    assert datetime.fromtimestamp(next_moment("07:00", morning)) == datetime(2026, 11, 25, 7, 0)


def test_old_nights_are_forgotten_with_their_output(tmp_path: Path) -> None:
    with QueueFile.open(tmp_path / "q.sqlite", create=True) as queue:
        queue.logs.mkdir()
        for number in range(KEPT_NIGHTS + 3):
            night = queue.add([(tmp_path / "a.yaml", tmp_path / "a.db", ())], SharedBudget())
            queue.log(number + 1).touch()
            queue.end_night(night.id, "over")
        queue.add([(tmp_path / "a.yaml", tmp_path / "a.db", ())], SharedBudget())
        assert len(queue.nights()) == KEPT_NIGHTS + 1
        assert len(list(queue.logs.iterdir())) == KEPT_NIGHTS


@pytest.mark.heavy
def test_a_config_that_cannot_be_used_ends_its_entry_only(project: Path, configs: list[str], call: Call) -> None:
    (project / "three.yaml").write_text(CONFIG.format(task="gemm"))
    assert call("queue", "add", "two.yaml", "three.yaml").exit_code == 0
    for name, task in (("two", "no_such_task"), ("three", "neither_this")):  # edited since
        (project / f"{name}.yaml").write_text(CONFIG.format(task=task))
    ran = subprocess.run(
        [sys.executable, "-m", "evokernel", "queue", "run"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "nothing is left to run" in ran.stdout
    with QueueFile.open(project / "runs" / "queue.sqlite") as queue:
        two, three = queue.entries()
        assert two.state is three.state is EntryState.FAILED
        assert "unknown task 'no_such_task'" in two.reason
        assert "unknown task 'neither_this'" in three.reason


def start(queue: Path, *settings: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, str(TOY), str(queue), *settings],
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80"},
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_a_killed_queue_loses_nothing(tmp_path: Path, configs: list[str]) -> None:
    queue, store = tmp_path / "q.sqlite", tmp_path / "one.db"
    with QueueFile.open(queue, create=True) as made:
        made.add([(tmp_path / "one.yaml", store, ())], SharedBudget(hours=2))

    def begun() -> bool:
        if not store.exists() or not store.stat().st_size:
            return False
        with Store.open(store, write=False) as opened:
            return opened.identity() is not None and opened.spent().steps >= 2

    with start(queue, "0.3", "100000") as process:  # it cannot end before the kill, however late that comes
        wait_until(begun)
        process.send_signal(signal.SIGKILL)
    with start(queue, "0.0") as process:
        out, _ = process.communicate(timeout=600)
    assert "interrupted" in out
    assert "nothing is left to run" in out
    with QueueFile.open(queue) as after, Store.open(store, write=False) as opened:
        assert opened.verify() == []
        steps = opened.spent().steps
        (entry,) = after.entries()
        assert (entry.state, entry.reason) == (EntryState.DONE, "budget of 12 evaluations used")
        assert after.database.number("SELECT sum(results) FROM slices") == steps
        assert not after.open_slices()


def test_a_night_with_faults_at_every_boundary(tmp_path: Path) -> None:
    month = Month(tmp_path, seed=3, faults=0.02)
    month.night()
    assert month.world.counts["kill"] > 0


@pytest.mark.slow
def test_ten_nights_lose_nothing(tmp_path: Path) -> None:
    month = Month(tmp_path, seed=0, faults=0.02)
    for _ in range(10):
        month.night()
    for path in month.stores:
        with Store.open(path, write=False) as store:
            assert store.verify() == []


def test_files_for_schedulers(tmp_path: Path) -> None:
    command, named = ["/opt/my env/python", "-m", "evokernel", "100%", "a$b"], {"folder": tmp_path, "queue": tmp_path}
    unit = systemd_unit(command, grace_s=60, **named)
    assert 'ExecStart="/opt/my env/python" "-m" "evokernel" "100%%" "a$$b"\n' in unit
    assert "TimeoutStopSec=90\n" in unit
    script = slurm_script(command, grace_s=60, **named)
    assert "#SBATCH --signal=B:TERM@90\n" in script
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
