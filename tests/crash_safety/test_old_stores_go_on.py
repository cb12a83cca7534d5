"""Stores and exports of other releases with today's whole evaluator: gone on with, judged again, refused where due."""

import json
import os
import sqlite3
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from archive.file.chain import sign_all
from archive.journal import ConfigEntry, ResultEntry
from archive.queries import judged_again
from archive.store import Store
from evokernel.config.run import EvaluationConfig
from evokernel.evaluate import EVALUATOR_VERSION
from evokernel.evaluate.build.confined_compilers import local_language
from evokernel.evaluate.client.evaluations import identify
from evokernel.evaluate.device.cpu_roofline import device_name
from evokernel.records.evaluation import EvaluatorIdentity
from evokernel.report.best import find_best
from tests.crash_safety.processes import DEADLINE_S, OLD_STORES, ROOT, evokernel, old_store, refusal, sound_facts
from tests.e2e.test_evolve import here

pytestmark = pytest.mark.slow
SMALL = ROOT / "tests" / "e2e" / "small_task.py"
SHORT = {"quick_ms": 4.0, "precise_ms": 8.0, "final_ms": 10.0, "final_processes": 1}
MOVED = {"v2_models": 4, "v3_killed": 8}
"""How many results are in each; test_versions.py goes on with all, without kernels. Below is one of schema 1."""


def brought_here(path: Path, *, task: str = "") -> None:
    """Write this processor's name into a store in the place of the recorded one: another device is another run.

    Its compiler becomes one that no machine has, since the recorded one may be this machine's own. `task`, if any,
    takes the place of the recorded task: the path of one with the same signature. Clocks are short then.
    """
    with Store.open(path, write=True) as store:
        noted, config = json.loads(store.meta("identity") or ""), yaml.safe_load(store.meta("config") or "")
        moved = {"device": device_name()}
        if task:
            config |= {"task": task, "evaluation": config["evaluation"] | SHORT}
            store.set_meta("config", yaml.safe_dump(config))
            moved["task_hash"] = identity_now(config).task_hash
            noted |= {"task": task, "task_spec": noted["task_spec"] | SHORT}
        store.set_meta("identity", json.dumps({**noted, **moved, "environment": "g++ 1.0"}))
        for fact in list(store.facts()):
            evaluation = getattr(fact, "evaluation", None)
            if evaluation is not None:
                key = replace(evaluation.key, **moved)
                store.database.execute(
                    "UPDATE evaluations SET device = ?, task_hash = ?, key_digest = ? WHERE key_digest = ?",
                    (key.device, key.task_hash, key.digest, evaluation.key.digest),
                )
        with store.database.transaction():
            sign_all(store.database)  # what is written here by hand is to pass for what a session wrote
        assert store.verify() == []


def identity_now(config: dict[str, Any]) -> EvaluatorIdentity:
    """Return what today's evaluator says of itself for the task and the settings of a config."""
    hello = {"device": "", "sheet": {}, "sandbox": "", "baseline_us": {}}
    settings = EvaluationConfig.model_validate(config["evaluation"])
    language = local_language("cpp", settings)
    return identify(hello, config["task"], language=language, settings=settings, threads=1, device="cpu")


def config_of(path: Path, *, evaluations: int) -> Path:
    """Write the config that a store holds beside it, with another budget; rules take the place of models."""
    with Store.open(path, write=False) as store:
        raw = yaml.safe_load(store.meta("config") or "")
    raw |= {"budget": {"evaluations": evaluations}, "models": []}
    for island in raw["islands"]:
        island["operators"], island["models"] = {"rewrite": 0.5, "tune": 0.5}, []
    config = path.with_name("run.yaml")
    config.write_text(yaml.safe_dump(raw))
    return config


def go_on(path: Path, *, evaluations: int) -> str:
    """Go on with a store until there are so many evaluations; return what was said."""
    done = evokernel("evolve", config_of(path, evaluations=evaluations), "--store", path, cwd=path.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("name", [*MOVED, "v1_finished", "v1_killed", "v3_finished", "v3_models"])
def test_the_task_of_an_old_store_is_still_known(name: str, tmp_path: Path) -> None:
    with Store.open(old_store(name, tmp_path), write=False) as store:
        config, noted = yaml.safe_load(store.meta("config") or ""), store.identity()
    now = identity_now(config)
    assert noted.task_hash in {now.task_hash, *now.earlier_task_hashes}


@pytest.mark.parametrize("name", MOVED)
def test_an_old_store_is_gone_on_with_by_todays_evaluator(name: str, tmp_path: Path) -> None:
    path = old_store(name, tmp_path)
    brought_here(path, task=str(SMALL))  # the recorded seed takes seconds for each product of the recorded sizes
    before = sound_facts(path)
    versions = {fact.evaluation.key.evaluator_version for fact in before if isinstance(fact, ResultEntry)}
    said = go_on(path, evaluations=MOVED[name] + 1)
    assert ("kernels are judged again" in said) == (versions != {EVALUATOR_VERSION})
    assert "another state" not in said
    after = sound_facts(path)
    assert after[: len(before)] == before
    steps = [fact.step for fact in after if isinstance(fact, ResultEntry)]
    assert len(steps) == len(set(steps)) >= MOVED[name] + 1
    new = [fact.evaluation.key for fact in after[len(before) :] if isinstance(fact, ResultEntry)]
    assert {key.evaluator_version for key in new} == {EVALUATOR_VERSION}
    assert evokernel("verify", path, cwd=tmp_path).returncode == 0


def test_what_an_earlier_evaluator_judged_is_judged_again_before_it_leads(tmp_path: Path) -> None:
    path = old_store("v1_killed", tmp_path)
    brought_here(path)
    with sqlite3.connect(path) as connection:  # so fast that it would lead for ever, were it believed
        connection.execute("UPDATE evaluations SET speedup = speedup * 100, speedup_low = speedup_low * 100")
    connection.close()
    with Store.open(path, write=True) as store, store.database.transaction():
        sign_all(store.database)
    before = sound_facts(path)
    said = go_on(path, evaluations=9)  # all were used: what is judged again needs no room in the budget
    assert "9 leading kernels are judged again" in said
    assert sound_facts(path)[: len(before)] == before
    with Store.open(path, write=False) as store:
        identity, best = store.identity(), find_best(store)
        assert identity is not None
        assert best is not None
        measure = {"task_hash": identity.task_hash, "device": identity.device, "version": EVALUATOR_VERSION}
        again = judged_again(store.database, **measure)
        assert len(again) > 1
        assert best.evaluation.key.evaluator_version == EVALUATOR_VERSION
        ranked = store.best(100)
        assert {each.candidate.program_hash for each in ranked} <= again.keys()
        edits = {fact.key for fact in store.facts(after=before[-1].seq) if isinstance(fact, ConfigEntry)}
        assert {"task_hash", "environment"} <= edits
    assert "another state" not in go_on(path, evaluations=10)


def test_a_task_whose_text_has_changed_is_refused_with_its_name(tmp_path: Path) -> None:
    text = SMALL.read_text().replace("Path(__file__).parents[2]", f"Path({str(ROOT)!r})")
    (tmp_path / "mine.py").write_text(text)
    config = tmp_path / "mine.yaml"
    config.write_text("task: mine.py\ndevice: cpu\nbudget: {evaluations: 1}\n"
                      "evaluation: {quick_ms: 4, precise_ms: 8, final_ms: 10, final_processes: 1}\n"
                      "islands: [{name: a, operators: {tune: 1}}]\n")  # fmt: skip
    assert evokernel("evolve", config, "--store", "run.db", cwd=tmp_path).returncode == 0
    before = sound_facts(tmp_path / "run.db")
    (tmp_path / "mine.py").write_text(f"{text}# and its tolerance was mended\n")
    said = refusal("evolve", config, "--store", "run.db", "--budget", "evaluations=3", cwd=tmp_path)
    assert "task_hash (the task's reference, workloads, tolerances or baselines" in said
    assert "--fresh" in said
    assert sound_facts(tmp_path / "run.db") == before


@pytest.mark.parametrize("name", ["v1_finished", "v2_models", "v3_finished"])
def test_a_store_of_every_schema_is_reported_and_forked(name: str, tmp_path: Path) -> None:
    path = old_store(name, tmp_path)
    here("report", str(path), "--out", str(tmp_path / "page.html"))
    assert "<html" in (tmp_path / "page.html").read_text()
    here("fork", str(path), "best", str(tmp_path / "new.db"))


def test_a_kernel_of_the_oldest_schema_is_exported(tmp_path: Path) -> None:
    path = old_store("v1_finished", tmp_path)
    words = ("--out", "kernel", "--accept-from", "0", "--sizes", "0")
    exported = evokernel("export", "--store", path, *words, cwd=tmp_path)
    assert exported.returncode == 0, exported.stdout + exported.stderr
    assert (tmp_path / "kernel" / "op.py").exists()


USE_EXPORT = """
import torch, kernel, op
a, b = torch.randn(33, 47), torch.randn(47, 21)
torch.testing.assert_close(kernel.run(a, b), a @ b)
torch.testing.assert_close(op.gemm(a, b), a @ b)
"""


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """A folder with what schema 3 exported: a kernel, and rows for training."""
    for name in ("export", "training"):
        with tarfile.open(OLD_STORES / f"v3_{name}.tar.gz") as packed:
            packed.extractall(tmp_path, filter="data")
    return tmp_path


def test_an_export_made_before_is_imported_and_computes(exported: Path) -> None:
    words = [sys.executable, "-c", USE_EXPORT]
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        words, cwd=exported / "export", env=variables, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert done.returncode == 0, done.stderr


def test_rows_for_training_made_before_are_what_their_store_says(exported: Path) -> None:
    path = old_store("v3_models", exported)
    rows = exported / "training" / "supervised.jsonl"
    checked = evokernel("export", "--check", rows, path, cwd=exported)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "8 rows" in checked.stdout
