"""A small real search from the command line to the exported numbers, and what a user sees when something is wrong."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from archive.journal import ResultEntry
from archive.store import Store
from archive.views.activity import last_stop
from evokernel.cli.group import main
from evokernel.config.model_choice import ASKING_SHARES
from evokernel.engine.search_session import UNBEATEN
from evokernel.errors import TRY_AGAIN_EXIT
from tests.e2e.kill_and_resume import write_config
from tests.llm.endpoint import endpoint, says

TASK = Path(__file__).parent / "small_task.py"
SEED = Path(__file__).parents[2] / "evokernel" / "tasks" / "gemm" / "seeds" / "naive.cpp"


def evokernel(
    *arguments: str, cwd: Path, timeout_s: float = 1800, **environment: str
) -> "subprocess.CompletedProcess[str]":
    root = str(Path(__file__).parents[2])
    return subprocess.run(
        [sys.executable, "-m", "evokernel", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": root, **environment},
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )


def here(*arguments: str, code: int = 0) -> str:
    """Run the command line in this process, which has imported torch; return what it said."""
    done = CliRunner().invoke(main, arguments, env={"COLUMNS": "200"})
    assert done.exit_code == code, done.output
    assert done.exception is None or isinstance(done.exception, SystemExit)
    return done.output


def test_a_search_ends_with_a_proved_kernel(tmp_path: Path) -> None:
    config = write_config(tmp_path, TASK)
    first = evokernel("evolve", str(config), "--budget", "evaluations=4", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert "evolving C++ on the processor" in first.stdout
    assert "budget of 4 evaluations used" in first.stdout
    beaten = UNBEATEN not in first.stdout  # a busy machine may hide what three kernels gain
    assert ("passed" in first.stdout) == beaten
    best = json.loads(evokernel("best", str(config), "--json", cwd=tmp_path).stdout)
    assert best["holdout"] == ("passed" if beaten else "pending")
    assert best["mode"] == "worker"
    assert best["speedup_over_seed"] > 0.0
    assert set(best["baselines"]["reference"]) >= {"speedup", "low", "high"}
    with Store.open(tmp_path / "kill.db", write=False) as store:
        assert store.verify() == []
        assert sum(isinstance(fact, ResultEntry) for fact in store.facts()) == 4


@pytest.mark.slow
def test_an_expert_is_among_what_the_best_is_compared_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = write_config(tmp_path, TASK)
    shutil.copy(SEED, tmp_path / "mine.cpp")
    expert = ("--set", "evaluation.expert=mine.cpp")  # beside the config
    for most in (2, 4, 8):  # it is measured beside a winner, which a busy machine may hide
        if UNBEATEN not in here("evolve", str(config), *expert, "--budget", f"evaluations={most}"):
            break
    for command in ("best", "status"):
        assert "expert " in here(command, str(config))
    best = json.loads(here("best", str(config), "--json"))
    assert set(best["baselines"]) == {"reference", "expert"}
    for each in best["baselines"].values():
        assert each["low"] <= each["speedup"] <= each["high"]
    here("report", str(config), "--out", "run.html")
    assert '"expert":' in (tmp_path / "run.html").read_text(encoding="utf-8")
    assert "evaluation.expert" in here("evolve", str(config), "--budget", "evaluations=16", code=2)
    (tmp_path / "mine.cpp").write_text('extern "C" void run() {}', encoding="utf-8")
    assert "mine.cpp is not right" in here("evolve", str(config), *expert, "--store", "new.db", code=2)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return write_config(tmp_path, TASK)


def refused(config: Path, *arguments: str, code: int = 2) -> str:
    """Run a search that must be refused; return what was said."""
    return here("evolve", str(config), *arguments, code=code)


def test_misspelt_key(config: Path) -> None:
    config.write_text(config.read_text().replace("migration:", "migratoin:"))
    done = evokernel("evolve", str(config), cwd=config.parent)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "migratoin: unknown key" in done.stderr
    assert "did you mean 'migration'?" in done.stderr


def test_unknown_task(config: Path) -> None:
    said = refused(config, "--set", "task=gem")
    assert "unknown task 'gem'" in said
    assert "gemm" in said


def test_unknown_names_in_the_config(config: Path) -> None:
    assert "unknown operator 'mutatate'" in refused(config, "--set", "islands.one.operators.mutatate=1")
    assert "unknown topology 'moebius'" in refused(config, "--set", "topology=moebius")
    assert "language: Input should be 'auto', 'cpp', 'triton' or 'cuda'" in refused(config, "--set", "language=fortran")


def test_a_device_class_that_the_task_does_not_have(config: Path) -> None:
    said = refused(config, "--set", "device=cuda")
    assert "has no cuda workloads" in said
    assert "both auto" in said


def test_task_file_that_raises(config: Path) -> None:
    broken = config.parent / "broken.py"
    broken.write_text("import torch\n\nraise ValueError('not today')\n")
    said = refused(config, "--set", f"task={broken}")
    assert "broken.py:3 raised ValueError: not today" in said


def test_seed_that_does_not_compile(config: Path) -> None:
    (config.parent / "bad.cpp").write_text('extern "C" void run(const float* a) { nonsense; }\n')
    said = refused(config, "--set", "seed_sources=[bad.cpp]")
    assert "no seed of this search is a correct kernel: correct one, and run the same command again" in said
    assert "compile_error" in said
    assert "nonsense" in said


def test_seed_that_is_no_text(config: Path) -> None:
    (config.parent / "bad.cpp").write_bytes(b"\x00\xa1")
    said = refused(config, "--set", "seed_sources=[bad.cpp]")
    assert f"cannot read the seed source {config.parent / 'bad.cpp'}, expected text in UTF-8: " in said


def test_no_compiler(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    said = refused(config)
    assert "compiler" in said
    assert "install" in said


def test_store_that_is_no_store(config: Path) -> None:
    (config.parent / "kill.db").write_bytes(b"this is not a database, but it is somebody's file" * 100)
    assert "kill.db" in refused(config)
    assert (config.parent / "kill.db").read_bytes().startswith(b"this is not")


def test_store_of_a_newer_schema(config: Path) -> None:
    path = config.parent / "kill.db"
    Store.open(path, write=True).close()
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    assert "schema 99" in refused(config)


def test_store_locked_by_another_engine(config: Path) -> None:
    with Store.open(config.parent / "kill.db", write=True):
        assert str(os.getpid()) in refused(config, code=TRY_AGAIN_EXIT)


@pytest.mark.slow
def test_the_limits_of_a_session_are_not_those_of_its_run(config: Path) -> None:
    limits = ("--session-hours", "1e-9", "--session-dollars", "1")  # money without models is no mistake of a queue
    done = evokernel("evolve", str(config), *limits, cwd=config.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "session's limit of 1e-09 h used" in done.stdout
    with Store.open(config.parent / "kill.db", write=False) as store:
        budget = yaml.safe_load(store.meta("config") or "")["budget"]
        assert budget["evaluations"] == 100000
        assert budget["hours"] is budget["dollars"] is None
        assert last_stop(store) == "session's limit of 1e-09 h used"


@pytest.mark.slow
def test_a_model_of_the_command_line_is_asked_beside_the_rules(tmp_path: Path) -> None:
    config = write_config(tmp_path, TASK)
    reply = f"IDEA: another order\nPREDICTED: 1.1x\n\n```cpp\n{SEED.read_text()}// more words\n```\n"
    with endpoint(says(reply)) as served:
        named = ("--model", "hosted_vllm/one", "--api-base", served.url)
        done = evokernel("evolve", str(config), *named, "--budget", "evaluations=12", cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "main (hosted_vllm/one) answers, " in done.stdout
        assert "beside the rules; at most 200 calls" in done.stdout
        again = evokernel("evolve", str(config), "--budget", "evaluations=14", cwd=tmp_path, EVOKERNEL_MODEL="openai/x")
        assert again.returncode == 0, again.stdout + again.stderr
        assert "models of this store: hosted_vllm/one; EVOKERNEL_MODEL=openai/x is not used" in again.stdout
    with Store.open(tmp_path / "kill.db", write=False) as store:
        assert store.verify() == []
        kinds = {call.call.origin.operator for call in store.calls.all()}
        assert kinds  # which of them hangs on gains that were measured
        assert kinds <= ASKING_SHARES.keys()
        assert len(kinds) <= store.spent().calls <= len(served.asked)
