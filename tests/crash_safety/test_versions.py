"""Stores of other releases: old ones are read, brought up to date and continued, newer ones refused untouched."""

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from archive.file import file_version
from archive.journal import ResultEntry
from archive.store import Store
from evokernel.cli.group import main
from evokernel.config.load import parse_config
from evokernel.config.run import RunConfig, flat_settings, flatten
from evokernel.evaluate.build.confined_compilers import local_language
from evokernel.records.evaluation import EvaluatorIdentity, Mode
from evokernel.tasks import load_task
from tests.crash_safety.processes import STORE, contents, evokernel, old_store, refusal, sound_facts
from tests.support.engine import Heard, toy_search
from tests.support.fakes import InstantEvaluator

OLD: dict[str, dict[str, Any]] = {
    "v1_finished": {"results": 20, "in_flight": 0, "calls": 0, "insights": 0, "state": "stopped"},
    "v1_killed": {"results": 9, "in_flight": 3, "calls": 0, "insights": 0, "state": "killed"},
    "v2_models": {"results": 4, "in_flight": 0, "calls": 4, "insights": 1, "state": "stopped"},
    "v3_finished": {"results": 15, "in_flight": 0, "calls": 0, "insights": 0, "state": "stopped"},
    "v3_killed": {"results": 7, "in_flight": 3, "calls": 0, "insights": 0, "state": "killed"},
    "v3_models": {"results": 10, "in_flight": 0, "calls": 9, "insights": 1, "state": "stopped"},
}
"""What is in each: `evokernel evolve` of its release wrote it (gzip -9), for tasks of this package, on a CPU.

`v1_finished` and `v1_killed` by the last commit before schema 2, the second ended with SIGKILL and kept with its log;
`v2_models` by the first release with schema 2, with replies of models; those of schema 3 by tests/old_stores/record.py,
which records the next ones. Another device, and the whole evaluator: tests/crash_safety/test_old_stores_go_on.py.
"""


@pytest.fixture(params=OLD)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def old(tmp_path: Path, name: str) -> Path:
    return old_store(name, tmp_path)


def told(*arguments: object) -> str:
    """Run the command line in this process; return what it said."""
    done = CliRunner().invoke(main, [*map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.slow
def test_an_old_store_is_read_by_every_command_and_left_as_it_is(old: Path, name: str, tmp_path: Path) -> None:
    before, expected = contents(tmp_path), OLD[name]
    status = json.loads(told("status", old, "--json"))
    assert status["state"] == expected["state"]
    assert status["results"] == expected["results"]
    assert status["in_flight"] == expected["in_flight"]
    assert status["insights"] == expected["insights"]
    best = json.loads(told("best", old, "--json"))
    assert best["mode"] == "worker"
    for command in (["verify", old], ["lineage", "--store", old], ["show", "best", "--store", old]):
        told(*command)
    assert contents(tmp_path) == before
    with Store.open(old, write=False) as store:
        assert store.calls.spending().calls == expected["calls"]


def stored_config(path: Path, evaluations: int) -> RunConfig:
    """Return the config that a store holds, with a larger budget and operators that need no model."""
    with Store.open(path, write=False) as store:
        raw = yaml.safe_load(store.meta("config") or "")
    raw |= {"budget": {"evaluations": evaluations}, "in_flight": 2}
    for island in raw["islands"]:
        island["operators"] = {"rewrite": 0.5, "tune": 0.5}
    return parse_config(raw, "the config in the store").on("cpu")


def same_machine(path: Path) -> EvaluatorIdentity:
    """Return what the evaluator said of itself where the store was written."""
    with Store.open(path, write=False) as store:
        noted = store.identity()
        version = next(fact for fact in store.facts() if isinstance(fact, ResultEntry)).evaluation.key.evaluator_version
    assert noted is not None
    return EvaluatorIdentity(noted.task_hash, noted.device, noted.environment, version, Mode.WORKER, {}, "none")


def test_an_old_store_is_continued(old: Path, name: str) -> None:
    before, expected = sound_facts(old), OLD[name]
    config = stored_config(old, expected["results"] + 6)
    language = local_language("cpp", config.evaluation)
    evaluator, heard = InstantEvaluator(speed=lambda source: 1.0, identity=same_machine(old)), Heard()
    with Store.open(old, write=True) as store:
        assert store.database.number("PRAGMA user_version") == file_version.VERSION
        task = load_task(config.task).on("cpu")
        search = toy_search(store, config, evaluator, source="", heard=heard, task=task, language=language)
        reason = asyncio.run(search.run())
    assert reason == f"budget of {expected['results'] + 6} evaluations used"
    assert not any("another state" in note for note in heard.notes)
    after = sound_facts(old)
    assert after[: len(before)] == before
    steps = [fact.step for fact in after if isinstance(fact, ResultEntry)]
    assert len(steps) == len(set(steps)) == expected["results"] + 6
    with Store.open(old, write=False) as store:
        assert store.open_leases() == []


def test_the_config_of_an_old_store_means_what_it_meant(old: Path) -> None:
    with Store.open(old, write=False) as store:
        stored = flat_settings(yaml.safe_load(store.meta("config") or ""))
    now = flatten(stored_config(old, 1))
    assert stored.keys() - {key for key in stored if ".operators." in key} <= now.keys()
    assert {key: now[key] for key in stored if key.startswith("evaluation.")} == {
        key: value for key, value in stored.items() if key.startswith("evaluation.")
    }


@pytest.mark.slow
def test_a_kernel_of_an_old_store_is_taken_to_this_machine(tmp_path: Path) -> None:
    old = old_store("v1_finished", tmp_path)
    before = contents(tmp_path)
    with Store.open(old, write=False) as store:
        (tmp_path / "old.yaml").write_text(store.meta("config") or "")
    assert "--fresh" in refusal("evolve", "old.yaml", "--store", old, "--set", "seed=99", cwd=tmp_path)
    assert sound_facts(old)
    old_store("v1_finished", tmp_path)
    forked = evokernel("fork", old, "best", "new.db", cwd=tmp_path)
    assert forked.returncode == 0, forked.stderr
    assert {name: content for name, content in contents(tmp_path).items() if name == STORE} == before
    done = evokernel("evolve", "old.yaml", "--store", "new.db", "--budget", "evaluations=1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "best kernel" in done.stdout


def newer(path: Path) -> None:
    """Make the file one of the next release: a table more, and killed before its log was folded in."""
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE marvels(x INTEGER)")
    connection.execute(f"PRAGMA user_version = {file_version.VERSION + 1}")
    connection.execute("INSERT INTO marvels VALUES (1)")
    connection.commit()
    left = {suffix: path.with_name(path.name + suffix).read_bytes() for suffix in ("", "-wal")}
    connection.close()
    for suffix, content in left.items():
        path.with_name(path.name + suffix).write_bytes(content)


@pytest.mark.slow
def test_a_store_of_the_next_release_is_refused_untouched(tmp_path: Path) -> None:
    path = old_store("v2_models", tmp_path)
    newer(path)
    before = contents(tmp_path)
    assert len(before[f"{STORE}-wal"]) > 0
    (tmp_path / "a.yaml").write_text("task: softmax\nislands: [{name: a, operators: {tune: 1}}]\n"
                                     "budget: {evaluations: 1}\n")  # fmt: skip
    for command in (
        ["evolve", "a.yaml", "--store", path],
        ["hint", path, "try this"],
        ["status", path],
        ["fork", path, "best", "new.db"],
        ["verify", path],
    ):
        said = refusal(*command, cwd=tmp_path)
        assert f"has schema {file_version.VERSION + 1}, and this evokernel knows up to {file_version.VERSION}" in said
        assert "install the release that wrote it, or a later one; the file was left as it is" in said
    assert {name: content for name, content in contents(tmp_path).items() if name != "a.yaml"} == before
