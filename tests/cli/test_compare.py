"""compare: numbers side by side, what can be told from them, and what cannot be compared."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from archive.store import Store
from evokernel.config.run import dump_config
from tests.cli.conftest import Call
from tests.support.engine import toy_config, toy_search
from tests.support.fakes import WIDE_TOY, InstantEvaluator
from tests.support.goldens import compare_golden
from tests.support.stores import DEVICE, IDENTITY, TASK_HASH, StoreBuilder


def make(
    path: str,
    best: float,
    *,
    identity: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
    final: float | None = None,
    others: tuple[float, ...] = (1.0, 1.5),
) -> None:
    """Write a run whose best kernel has a speed-up, and in a final measurement another one."""
    changes, config = identity or {}, toy_config(**(settings or {}))
    seed = changes.setdefault("seed", config.seed)
    with StoreBuilder(Path(path), begin=False) as builder:
        builder.store.begin_run(replace(IDENTITY, **changes))
        text = dump_config(config.model_copy(update={"seed": seed, "store": path}))
        builder.store.set_meta("config", text)
        first = builder.seed(speedup=0.1)
        for speed in (*others, best):
            name = builder.add(f"// {path} {speed}\n", speedup=speed, parents=(first,))
        if final is not None:
            builder.final(first, speedup=0.1, panel={"torch": 0.1})
            builder.final(name, speedup=final, panel={"torch": final, "compiled": final * 0.9})
        if {"device", "task_hash"} & changes.keys():
            where = (changes.get("device", DEVICE), changes.get("task_hash", TASK_HASH))
            builder.store.database.execute("UPDATE evaluations SET device = ?, task_hash = ?", where)
        builder.store.heartbeat(90.0)
        builder.store.session_end("budget of 4 evaluations used")


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("width", ["80", "200"])
def test_two_runs_look_like_this(project: Path, call: Call, monkeypatch: pytest.MonkeyPatch, width: str) -> None:
    make("fast.db", 3.0, final=2.9)
    make("slow.db", 2.0, final=1.9, settings={"in_flight": 5, "topology": "star"})
    monkeypatch.setenv("COLUMNS", width)
    result = call("compare", "fast.db", "slow.db", "--level", "1.2")
    assert result.exit_code == 0, result.output
    assert max(len(line) for line in result.output.splitlines()) <= int(width)
    compare_golden(f"compare_{width}.txt", result.output)


def test_a_difference_beyond_the_intervals_is_told_and_a_smaller_one_is_not(project: Path, call: Call) -> None:
    make("a.db", 3.0, final=2.9)
    make("b.db", 2.0, final=1.9)
    make("c.db", 3.1, final=2.88)
    text = words(call("compare", "a.db", "b.db", "c.db").output)
    assert "the best of a is faster than that of b: 1.53x" in text
    assert "a and c cannot be told apart: 1.01x (0.99–1.03), measured anew" in text


def test_one_run_of_each_does_not_say_which_settings_are_better(project: Path, call: Call) -> None:
    make("a.db", 3.0)
    make("b.db", 2.0, settings={"in_flight": 5})
    assert "one run of each" in words(call("compare", "a.db", "b.db").output)
    make("b2.db", 2.1, settings={"in_flight": 5}, identity={"seed": 1})
    assert "one run of each" not in words(call("compare", "a.db", "b.db", "b2.db").output)


def test_numbers_that_selected_are_compared_with_their_like(project: Path, call: Call) -> None:
    make("a.db", 3.0, final=1.5)
    make("b.db", 2.0)
    text = words(call("compare", "a.db", "b.db").output)
    assert "faster than that of b: 1.50x (1.47–1.53), by the numbers that selected them" in text
    assert "not measured anew yet: b" in text


def test_levels(project: Path, call: Call) -> None:
    make("a.db", 3.0, others=(1.0, 1.9, 2.8))
    make("b.db", 2.0, others=(1.0, 1.9, 1.2))
    found = json.loads(call("compare", "a.db", "b.db", "--level", "2.5", "--json").output)["levels"]
    reached = [[(run["reached"] or {}).get("evaluations") for run in level["runs"].values()] for level in found]
    assert [level["name"] for level in found] == ["90% of its own best", "the best of the weakest", None]
    assert reached == [[4, 3], [4, 5], [4, None]]
    assert "never" in call("compare", "a.db", "b.db", "--level", "2.5").output


def test_only_settings_that_differ_are_shown(project: Path, call: Call) -> None:
    make("a.db", 3.0)
    make("b.db", 2.0, settings={"in_flight": 5})
    found = json.loads(call("compare", "a.db", "b.db", "--json").output)
    assert found["differing"] == {"in_flight": {"a": 2, "b": 5}}
    assert found["groups"] == []


def test_a_setting_without_a_value_is_no_blank(project: Path, call: Call) -> None:
    make("a.db", 3.0)
    make("b.db", 2.0, settings={"plugins": "mine"})
    assert "plugins - a mine b" in words(call("compare", "a.db", "b.db").output)


def test_the_folder_where_plug_ins_are_found_anyway_is_no_setting(project: Path, call: Call) -> None:
    """A run by `evokernel.evolve` has a folder of its own, which its store notes as that of its plug-ins."""
    for name, folder in (("a.db", "/one"), ("b.db", "/two")):
        make(name, 3.0, settings={"plugins": folder, "task": f"{folder}/my_task.py"})
    make("c.db", 2.0, settings={"plugins": str(project)})
    make("d.db", 2.0)
    assert "plugins" not in call("compare", "a.db", "b.db", "c.db").output
    assert json.loads(call("compare", "a.db", "b.db", "--json").output)["differing"].keys() == {"plugins"}
    make("e.db", 2.0, settings={"plugins": "/three", "task": "/one/my_task.py"})
    assert "plugins /one a /three e" in words(call("compare", "a.db", "e.db").output)


def test_seeds_of_one_config_are_a_group(project: Path, call: Call) -> None:
    for seed, best in enumerate((3.0, 3.4, 2.6)):
        make(f"old{seed}.db", best, identity={"seed": seed})
    for seed, best in enumerate((4.0, 5.0)):
        make(f"new{seed}.db", best, identity={"seed": seed}, settings={"in_flight": 5})
    stores = ["old0.db", "old1.db", "old2.db", "new0.db", "new1.db"]
    found = json.loads(call("compare", *stores, "--json").output)
    assert [(group["runs"], group["seeds"]) for group in found["groups"]] == [
        (["old0", "old1", "old2"], [0, 1, 2]),
        (["new0", "new1"], [0, 1]),
    ]
    spread = found["groups"][0]["spreads"]["speedup"]
    assert spread == pytest.approx({"median": 3.0, "low": 2.6, "high": 3.4, "count": 3})
    text = words(call("compare", *stores).output)
    assert "every run like new0 ended faster than every run like old0" in text
    assert "2.60x to 3.40x" in text
    make("new2.db", 3.2, identity={"seed": 2}, settings={"in_flight": 5})
    text = words(call("compare", *stores, "new2.db").output)
    assert "runs like new0 and runs like old0 cannot be told apart: their ranges overlap" in text


def test_a_copy_of_a_project_is_of_the_same_task(project: Path, call: Call) -> None:
    make("a.db", 3.0, identity={"task": "/one/my_task.py"}, settings={"task": "/one/my_task.py"})
    make("b.db", 2.0, identity={"task": "/two/my_task.py", "seed": 1}, settings={"task": "/two/my_task.py"})
    found = json.loads(call("compare", "a.db", "b.db", "--json").output)
    assert found["comparable"]
    assert [group["runs"] for group in found["groups"]] == [["a", "b"]]
    make("c.db", 2.0, identity={"task": "/two/my_task.py", "task_hash": "b" * 16})
    assert "only runs of one task can be compared" in call("compare", "a.db", "c.db").stderr


def test_what_leads_a_search_since_its_final_measurement_is_noted(project: Path, call: Call) -> None:
    with StoreBuilder(Path("a.db")) as builder:
        builder.seed(speedup=0.1)
        builder.final(builder.add("// slow\n", speedup=0.6), speedup=0.5)
        led = builder.add("// later\n", speedup=3.5)
    make("b.db", 2.0, final=1.9)
    text = words(call("compare", "a.db", "b.db").output)
    assert f"note: a: {led} leads its search with 3.5x, not measured anew yet" in text


def test_runs_of_several_tasks_are_refused(project: Path, call: Call) -> None:
    make("a.db", 3.0)
    make("b.db", 2.0, identity={"task": "softmax", "task_hash": "b" * 16})
    result = call("compare", "a.db", "b.db")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "only runs of one task can be compared" in result.stderr
    assert "a of gemm, b of softmax" in result.stderr


def test_a_task_file_that_was_copied_is_the_same_task(project: Path, call: Call) -> None:
    for name in ("a", "b"):
        make(f"{name}.db", 3.0, identity={"task": f"/{name}/gemm_task.py"})
    assert call("compare", "a.db", "b.db").exit_code == 0


@pytest.mark.parametrize(
    ("identity", "said"),
    [
        ({"device": "Other CPU"}, "measured on different devices (Test CPU: a; Other CPU: b)"),
        ({"task_hash": "b" * 16, "task_spec": {"quick_ms": 30}}, "is not the same in a and b (quick_ms)"),
        ({"task_hash": "b" * 16}, "(its reference, workloads, tolerances or baselines)"),
    ],
)
def test_what_cannot_be_compared_is_said(project: Path, call: Call, identity: dict[str, Any], said: str) -> None:
    make("a.db", 3.0)
    make("b.db", 2.0, identity=identity)
    text = words(call("compare", "a.db", "b.db").output)
    assert said in text
    assert "so their speed-ups cannot be compared" in text
    assert "2.00x" in text  # side by side they are shown
    assert "faster than" not in text
    assert "weakest" not in text
    assert json.loads(call("compare", "a.db", "b.db", "--json").output)["comparable"] is False


def test_other_evaluators_and_environments_are_said(project: Path, call: Call) -> None:
    make("a.db", 3.0)
    make("b.db", 2.0, identity={"environment": "clang"})
    text = words(call("compare", "a.db", "b.db").output)
    assert "in different environments (g++ 13 -O3: a; clang: b)" in text
    assert "the best of a is faster" in text
    with Store.open("b.db", write=True) as store:
        store.database.execute("UPDATE evaluations SET evaluator_version = '2'")
    text = words(call("compare", "a.db", "b.db").output)
    assert "judged by different versions of the evaluator (1: a; 2: b)" in text
    assert "faster than" not in text


def test_different_baselines_have_nothing_in_common(project: Path, call: Call) -> None:
    make("a.db", 3.0)
    make("b.db", 2.0)
    with Store.open("b.db", write=True) as store:
        store.database.execute("""UPDATE evaluations SET timings = replace(timings, '"torch"', '"compiled"')""")
    text = words(call("compare", "a.db", "b.db").output)
    assert "a and b cannot be compared: they were measured against different baselines" in text


def test_baselines_that_differ_by_workload_leave_the_panel(project: Path, call: Call) -> None:
    make("a.db", 3.0, final=2.9)
    make("b.db", 2.0, final=1.9)
    with Store.open("b.db", write=True) as store:
        store.database.execute("""UPDATE evaluations SET timings = replace(timings, '"torch"', '"compiled"')""")
    assert "measured anew, over compiled" in words(call("compare", "a.db", "b.db").output)


def test_a_run_without_a_right_kernel_and_one_that_has_not_begun(project: Path, call: Call) -> None:
    make("a.db", 3.0)
    with StoreBuilder(Path("b.db")) as builder:
        builder.add("// wrong\n", speedup=None)
    result = call("compare", "a.db", "b.db")
    assert result.exit_code == 0
    assert "without a correct kernel: b" in words(result.output)
    StoreBuilder(Path("c.db"), begin=False).store.close()
    assert "c.db holds no run yet" in call("compare", "a.db", "c.db").stderr


def test_what_is_asked_must_make_sense(project: Path, call: Call) -> None:
    make("a.db", 3.0)
    assert "at least two" in call("compare", "a.db").stderr
    assert "named twice" in call("compare", "a.db", "./a.db").stderr
    assert call("compare", "a.db", "a.db", "--level", "0").exit_code == 2


def test_many_runs_fit_a_narrow_terminal(project: Path, call: Call) -> None:
    for number in range(7):
        make(f"run{number}.db", 2.0 + number, identity={"seed": number})
    shown = call("compare", *(f"run{number}.db" for number in range(7)), "--level", "2.4").output
    lines = shown.splitlines()
    assert max(len(line) for line in lines) <= 80
    assert "judged until 2.40x" in words(shown), "a table of its own"
    assert "too narrow for: on the device (COLUMNS=200 before the command, or --json)" in words(shown)
    assert "run6 seems the fastest, so each other run is compared with it" in words(shown)
    assert sum("run6" in line for line in lines) >= 2


def test_real_searches_with_several_seeds(project: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(3):
        config = toy_config(budget={"evaluations": 20 + 10 * seed}, seed=seed)
        with Store.open(project / f"seed{seed}.db", write=True) as store:
            asyncio.run(toy_search(store, config, InstantEvaluator(), source=WIDE_TOY).run())
    monkeypatch.setenv("COLUMNS", "120")
    result = call("compare", "seed0.db", "seed1.db", "seed2.db")
    assert result.exit_code == 0, result.output
    assert "judged 20 30 40 right" in words(result.output)
    assert max(len(line) for line in result.output.splitlines()) <= 120
    found = json.loads(call("compare", "seed0.db", "seed1.db", "seed2.db", "--json").output)
    assert set(found["differing"]) == {"seed", "budget.evaluations"}
    assert [run["judged"] for run in found["runs"].values()] == [20, 30, 40]
    for level in found["levels"]:
        for name, run in level["runs"].items():
            assert 1 <= run["reached"]["evaluations"] <= found["runs"][name]["judged"]
            assert run["speedup"] <= found["runs"][name]["best"]["speedup"]["value"] * 1.001


@pytest.mark.parametrize("width", ["40", "80", "200"])
def test_words_of_strangers_fit_and_are_only_text(
    project: Path, call: Call, monkeypatch: pytest.MonkeyPatch, width: str
) -> None:
    evil = "[bold red]gotcha[/] \x1b[2J\x1b]0;title\x07 \u202edesrever :smiley: [link=http://x]y[/link]"
    make("a.db", 3.0)
    make(f"{evil.replace('/', '')}.db", 2.0, identity={"environment": evil})
    with Store.open("a.db", write=True) as store:
        store.set_meta("config", json.dumps({evil: evil, "islands": [{"name": evil}]}))
        store.database.execute("UPDATE evaluations SET timings = replace(timings, 'small', ?)", (evil.split()[0],))
    monkeypatch.setenv("COLUMNS", width)
    output = call("compare", "a.db", f"{evil.replace('/', '')}.db").output
    assert "gotcha" in output
    assert not set(output) & set("\x1b\x07\u202e")
    assert max(len(line) for line in output.splitlines()) <= int(width)
