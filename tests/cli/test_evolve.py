"""Sessions of a search: how they end, what signals do, what options mean. Real processes, a toy to evolve."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from archive.inbox import waiting
from archive.store import Store
from evokernel.cli.evolve import budget_override, how_to_go_on
from evokernel.cli.session import SessionEnd
from evokernel.errors import TRY_AGAIN_EXIT, ConfigError
from evokernel.records.run import NOTHING_LEFT
from evokernel.report.status import read_status
from tests.cli.conftest import Call
from tests.cli.toy_evolve import FEW
from tests.support.engine import toy_config

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).parent / "toy_evolve.py"
PATIENCE_S = 300.0
MANY = 100_000
"""Evaluations of a search that is ended from outside: on a busy machine a test may come late."""
CONFIG = (
    "task: {task}\nstore: runs/gemm.db\nbudget: {{evaluations: 1}}\nislands: [{{name: one, operators: {{tune: 1}}}}]\n"
)

Process = subprocess.Popen[str]


class Toys:
    """Starts toy searches and ends those that are left."""

    def __init__(self, folder: Path) -> None:
        self.store = folder / "toy.db"
        self._started: list[Process] = []

    def start(self, seconds: float, evaluations: int = FEW) -> Process:
        process = subprocess.Popen(
            [sys.executable, SCRIPT, self.store, str(seconds), str(evaluations)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80"},
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # the tests may run under nohup
        )
        self._started.append(process)
        return process

    def wait_for_seed(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if self.store.exists():
                with Store.open(self.store, write=False) as store:
                    if store.spent().steps and store.open_leases():
                        return
            time.sleep(0.05)
        raise AssertionError("the search did not begin")

    def close(self) -> None:
        for process in self._started:
            process.kill()
            with process:  # closes its pipes and waits
                pass


@pytest.fixture
def toys(tmp_path: Path) -> Iterator[Toys]:
    made = Toys(tmp_path)
    yield made
    made.close()


def test_a_session_ends_with_its_budget_and_the_table(toys: Toys) -> None:
    out, err = toys.start(0.0).communicate(timeout=PATIENCE_S)
    assert err == ""
    assert "budget of 12 evaluations used" in out
    assert "new best" in out
    assert "passed" in out
    assert "larger budget" in out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_finishes_what_is_in_flight(toys: Toys, number: signal.Signals) -> None:
    process = toys.start(0.3, MANY)
    toys.wait_for_seed()
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, err) == (128 + number, "")
    assert ("best kernel" in out) == (number is not signal.SIGHUP)
    with Store.open(toys.store, write=False) as store:
        assert read_status(store).last_stop == f"stopped by {number.name}"
        assert store.open_leases() == []


def test_a_second_signal_stops_at_once_and_the_next_session_goes_on(toys: Toys) -> None:
    process = toys.start(3600.0)
    toys.wait_for_seed()
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    while "finishing what is in flight" not in (line := process.stdout.readline()):  # two at once may come as one
        assert line, "the search ended"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_S)  # a judgement takes an hour
    assert process.returncode == 130
    with Store.open(toys.store, write=False) as store:
        assert store.open_leases()
    out, _ = toys.start(0.0).communicate(timeout=PATIENCE_S)
    assert "budget of 12 evaluations used" in out


def test_a_reader_that_goes_away_ends_the_session_in_order(toys: Toys) -> None:
    process = toys.start(0.2, MANY)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=PATIENCE_S) == 141
    assert process.stderr is not None
    assert process.stderr.read() == ""
    with Store.open(toys.store, write=False) as store:
        assert read_status(store).last_stop == "stopped by SIGPIPE"


def test_a_store_in_use_is_a_message(ids: dict[str, str], project: Path, call: Call) -> None:
    (project / "c.yaml").write_text(CONFIG.format(task="gemm"))
    with Store.open(project / "runs" / "gemm.db", write=True):
        for arguments in ((), ("--fresh",)):
            result = call("evolve", "c.yaml", *arguments)
            assert result.exit_code == TRY_AGAIN_EXIT
            assert "another evokernel" in result.stderr


def test_budget_option() -> None:
    assert budget_override("evaluations=200,hours=1") == "{evaluations: 200, hours: 1}"
    assert budget_override("hours=90min, calls=3") == "{hours: 1.5, calls: 3}"
    assert [budget_override(f"hours={each}") for each in ("1h", "36 s")] == ["{hours: 1}", "{hours: 0.01}"]
    for wrong in ("200", "evaluations=", "=3", "evaluations=1,,hours=2"):
        with pytest.raises(ConfigError, match="expected name=number"):
            budget_override(wrong)


def test_a_wrong_budget_is_a_message(project: Path, call: Call) -> None:
    (project / "c.yaml").write_text(CONFIG.format(task="gemm"))
    result = call("evolve", "c.yaml", "--budget", "evalutions=5")
    assert result.exit_code == 2
    assert "--budget: budget.evalutions: unknown key" in result.stderr
    for wrong, said in (
        (
            "hours=90sec",
            "--budget: budget.hours: expected a number, given '90sec'; --budget takes a unit, too: hours=1.5h",
        ),
        ("eval=3", "--budget: budget.eval: unknown key (given 3); did you mean 'evaluations'?"),
    ):
        assert said in call("evolve", "c.yaml", "--budget", wrong).stderr


@pytest.mark.parametrize(
    "asked",
    [
        ("export", "--accept-from", "nan"),
        ("export", "--training", "rows", "--balance", "inf"),
        ("queue", "add", "c.yaml", "--hours", "inf"),
    ],
    ids=" ".join,
)
def test_a_number_without_end_is_a_message(project: Path, call: Call, asked: tuple[str, ...]) -> None:
    result = call(*asked)
    assert result.exit_code == 2
    assert f"Invalid value for '{asked[-2]}': expected a finite number, got '{asked[-1]}'" in result.stderr


def test_a_python_file_in_place_of_a_config_is_told(project: Path, call: Call) -> None:
    (project / "my_op.py").write_text("def f(x): return x\n")
    assert "`evokernel init my_op.py` writes one" in call("evolve", "my_op.py").stderr
    (project / "f.yaml").write_text("# Evolve `f` of my_op.py. Runs as it is\n" + CONFIG.format(task="f_task.py"))
    for name in ("my_op.py", "f_task.py"):
        assert f"{name} is Python, and no config: name the one for it, f.yaml" in call("evolve", name).stderr


def test_the_nearest_name_is_suggested(project: Path, call: Call) -> None:
    (project / "f_norm_task.py").write_text("")
    (project / "f_norm.yaml").write_text(CONFIG.format(task="f_norm"))
    assert "did you mean 'f_norm.yaml'?" in call("evolve", "fnorm.yaml").stderr
    assert "did you mean 'f_norm_task.py'?" in call("evolve", "f_norm.yaml").stderr


def test_a_search_that_is_refused_leaves_the_old_store_in_its_place_and_makes_no_new_one(
    ids: dict[str, str], project: Path, call: Call
) -> None:
    before = sorted((project / "runs").iterdir())
    (project / "c.yaml").write_text(CONFIG.format(task="no_such_task"))
    for store in ("runs/gemm.db", "new/gemm.db"):
        result = call("evolve", "c.yaml", "--fresh", "--store", store)
        assert result.exit_code == 2
        assert "unknown task 'no_such_task'" in result.stderr
    (project / "c.yaml").write_text(CONFIG.format(task="gemm"))
    result = call("evolve", "c.yaml", "--fresh", "--set", "islands.0.niches.axes={vectorbits: [256]}")
    assert result.exit_code == 2
    assert "niches.axes 'vectorbits' is not measured" in result.stderr
    assert sorted((project / "runs").iterdir()) == before
    assert not (project / "new").exists()


def test_a_search_that_is_refused_leaves_no_lock_and_no_folder_where_it_made_no_store(project: Path) -> None:
    store = project / "new" / "folder" / "refused.db"

    def refused() -> None:
        with Store.open(store, write=True):
            raise ConfigError("refused")

    with pytest.raises(ConfigError, match="refused"):
        refused()
    assert not (project / "new").exists()
    Store.open(store, write=True).close()


def test_a_search_that_is_refused_keeps_what_was_handed_to_it(project: Path) -> None:
    path = project / "new.db"

    def refused() -> None:
        with Store.open(path, write=True):
            Store.inbox_put(path, "hint", {"text": "try wider vectors"})
            raise ConfigError("refused")

    with pytest.raises(ConfigError, match="refused"):
        refused()
    with Store.open(path, write=False) as store:
        assert len(waiting(store.database)) == 1


@pytest.mark.parametrize(
    ("reason", "signal_number", "models", "expected"),
    [
        ("budget of 3 evaluations used", 0, False, "--budget evaluations=1000"),
        ("stopped by SIGINT", 2, False, "the same command again"),
        (NOTHING_LEFT, 0, False, "--model openai/gpt-5; or another seed"),
        (NOTHING_LEFT, 0, True, "another seed"),
        ("the other operators wait for `evokernel ask`", 0, False, "evokernel ask, which writes the prompts that wait"),
    ],
)
def test_the_end_says_what_would_help(reason: str, signal_number: int, models: bool, expected: str) -> None:
    asked: dict[str, Any] = {
        "models": ({"name": "main", "model": "openai/gpt-5"},),
        "islands": [{"name": "one", "operators": {"mutate": 1}}],
    }
    said = how_to_go_on(toy_config(**asked if models else {}), SessionEnd(reason, signal=signal_number))
    assert expected in said
    assert ("--model" in said) == (reason == NOTHING_LEFT and not models)
