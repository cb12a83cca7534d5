"""status, best, show, diff, lineage and fork on a small store."""

import contextlib
import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from archive.store import Store
from evokernel.cli.evolve import show_end
from evokernel.records.candidate import Usage
from evokernel.records.evaluation import NONDETERMINISTIC, Mode, Status
from evokernel.records.llm import CallStatus, Insight, InsightKind
from evokernel.report.best import find_best
from evokernel.report.status import run_facts
from evokernel.report.verdicts import torch_words
from tests.cli.conftest import Call
from tests.support.stores import StoreBuilder, fill_store, make_timing

EVIL = "[bold red]gotcha[/] \x1b[2J\x1b]0;title\x07 \u202edesrever :smiley: [link=http://x]y[/link]"


def test_best_shows_final_numbers_and_never_those_that_selected(ids: dict[str, str], call: Call) -> None:
    text = call("best").output
    assert ids["best"] in text
    assert "5.00x" in text  # torch, from the panel
    assert "49.00x" in text  # 4.9 / 0.1, final over final
    assert "6.00x" not in text
    assert "passed" in text
    assert "% of what the device allows (memory-bound)" in text


def test_what_leads_the_search_since_a_slow_final_measurement_is_named(project: Path, call: Call) -> None:
    with StoreBuilder(project / "runs" / "old.db") as builder:
        builder.seed()
        slow = builder.add("// slow\n", speedup=0.06)
        builder.final(slow, speedup=0.05)
        builder.store.session_end("budget of 4 evaluations used")
        for command in ("best", "status"):
            text = words(call(command).output)
            assert f"{slow} is slower than torch on every workload: an export refuses it" in text
            assert "leads the search" not in text
        assert "another seed (evokernel inject): what was found is slower" in words(
            call("status", "--since", "1h").output
        )
        found = builder.add("// found\n", speedup=2.74)
    for command in ("best", "status"):
        text = words(call(command).output)
        assert f"best kernel measured anew {slow}" in text
        assert f"{found} leads the search with 2.74x (2.70–2.78), and was not measured anew yet" in text
        assert f".db --id {found[:8]}` does now" in text
    assert "`evokernel export runs/" in words(call("status", "--since", "1h").output)


def test_it_is_said_where_an_export_may_refuse_what_is_neither_faster_nor_slower(project: Path, call: Call) -> None:
    with StoreBuilder(project / "runs" / "even.db") as builder:
        builder.seed()
        even = builder.add("// even\n", speedup=1.2)
        builder.final(even, speedup=0.5)  # twice as fast on one workload, and half as fast on the other
    for command in ("best", "status"):
        text = words(call(command).output)
        assert f"{even} is clearly faster than torch on no workload: an export measures it anew" in text
        assert "slower than torch" not in text


def test_torch_has_the_name_of_its_baseline_where_a_task_has_its_reference_alone() -> None:
    said = {name: torch_words([make_timing("a", 0.5, baseline=name)]) for name in ("reference", "torch", "expert")}
    assert said == {"reference": "torch (the baseline reference)", "torch": "torch", "expert": "torch"}


def test_the_end_of_a_search_advises_an_export_only_where_one_would_do(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with StoreBuilder(project / "slow.db") as builder:
        builder.seed(speedup=0.01)
        slow = builder.add("// slow\n", speedup=0.06)

        def end() -> str:
            show_end(find_best(builder.store), run_facts(builder.store), summary="done", go_on="again")
            return words(capsys.readouterr().out)

        assert "an export does so for itself alone: it only reads the store" in end()
        builder.final(slow, speedup=0.05)
        assert "take nothing yet, since an export refuses it (with --accept-from 0" in end()
        builder.add("// found\n", speedup=2.0)
        assert f"take evokernel export {project / 'slow.db'}" in end()


def test_best_json(ids: dict[str, str], call: Call) -> None:
    document = json.loads(call("best", "--json").output)
    assert document["candidate"] == ids["best"]
    assert document["holdout"] == "passed"
    assert document["mode"] == "worker"
    assert document["speedup_over_seed"] == pytest.approx(49.0)
    torch = document["baselines"]["torch"]
    assert torch["speedup"] == pytest.approx(5.0)
    assert torch["low"] < torch["speedup"] < torch["high"]


def test_best_without_a_correct_kernel(project: Path, call: Call) -> None:
    StoreBuilder(project / "runs" / "empty.db").store.close()
    result = call("best", "--json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "holds no correct kernel yet" in result.stderr


def test_status(ids: dict[str, str], call: Call) -> None:
    text = call("status").output
    assert "budget of 4 evaluations used" in text
    assert "BLOCK_K 8 -> 16" in text
    assert "1 numerical" in text
    assert "tuners" in text


def test_status_of_a_store_without_results(project: Path, call: Call) -> None:
    StoreBuilder(project / "runs" / "empty.db", begin=False).store.close()
    result = call("status")
    assert result.exit_code == 0
    assert "no correct kernel yet" in result.output
    assert json.loads(call("status", "--json").output)["best"] is None


def test_status_of_a_search_that_was_killed_at_its_admission(project: Path, call: Call) -> None:
    with Store.open(project / "killed.db", write=True):
        assert "starting: admission of the task" in words(call("status", "killed.db").output)
    for _ in range(2):  # there is nothing since a last look
        text = words(call("status", "killed.db").output)
        assert text.startswith("a run that has not begun state killed before anything was judged; the same `evokernel")
        assert "next" not in text


def test_show_by_prefix(ids: dict[str, str], call: Call) -> None:
    text = call("show", ids["wrong"][:6]).output
    assert "output differs by 3.5 at [0, 1]" in text
    assert "numerical" in text
    assert "// wrong" in text


def test_a_number_that_may_be_meant_as_a_step_is_told(project: Path, call: Call) -> None:
    with StoreBuilder(project / "runs" / "steps.db") as builder:
        made = [builder.seed()] + [builder.add(f"// {number}\n", speedup=1.0) for number in range(9)]
        born = {builder.store.candidate(name).born: name for name in made}
    begins = {step: [name for name in made if name.startswith(str(step))] for step in born}
    step, name = next((step, names[0]) for step, names in begins.items() if len(names) == 1 and names[0] != born[step])
    shown = call("show", str(step))
    assert shown.stderr == f"this is the candidate whose id begins with {step}; step {step} made {born[step]}\n"
    assert f"candidate {name}" in shown.stdout
    step = next(step for step, names in begins.items() if not names)
    assert f"begins with {step}; step {step} made {born[step]}" in call("show", str(step)).stderr
    assert call("show", name).stderr == ""


def test_show_lists_the_fastest(ids: dict[str, str], call: Call) -> None:
    output = call("show", "runs/gemm.db", "--top", 2).output
    assert "at least" in output, "the list goes by it"
    rows = [words for line in output.splitlines() if len(words := line.split()) > 3 and words[0] in ids.values()]
    assert [row[:2] for row in rows] == [[ids["best"], "6.00x"], [ids["tiled"], "1.00x"]]
    assert rows[0][3] == "4.90x"
    assert [each["candidate"] for each in json.loads(call("show", "--top", 9, "--json").output)][-1] == ids["seed"]
    assert call("show", "best", "--top", 2).exit_code == 2


def test_an_id_that_is_missing_or_wrong_is_answered_with_some(ids: dict[str, str], call: Call) -> None:
    missing = call("diff", "runs/gemm.db", "seed").stderr
    assert "Missing argument 'B': an id, `best` or `seed`; `evokernel show runs/gemm.db --top 20`" in missing
    assert "`evokernel show --top 20`" in call("diff", "seed").stderr
    for wrong in ("0" * 16, "zzz"):
        said = call("diff", "runs/gemm.db", "seed", wrong).stderr
        assert all(each in said for each in ids.values()), said


def test_show_source_alone_is_exact(ids: dict[str, str], call: Call) -> None:
    assert call("show", "seed", "--source").output == "// seed\nvoid run() {}\n"


def test_show_json(ids: dict[str, str], call: Call) -> None:
    document = json.loads(call("show", "best", "--json").output)
    assert document["proposal"]["parents"] == [ids["tiled"], ids["seed"]]
    assert [evaluation["budget"] for evaluation in document["evaluations"]] == ["quick", "final"]


def test_diff(ids: dict[str, str], call: Call) -> None:
    lines = call("diff", "seed", "best").output.splitlines()
    assert "-// seed" in lines
    assert "+// best" in lines
    assert lines[1].endswith("  4.90x over the fastest baseline, final measurement, worker mode")
    assert "equal" in call("diff", "best", ids["best"]).output


def test_lineage_tells_gains_from_the_seed_on(ids: dict[str, str], call: Call) -> None:
    text = call("lineage").output
    positions = [text.rindex(ids[name][:8]) for name in ("seed", "tiled", "best")]
    assert positions == sorted(positions)
    assert "10.00x" in text
    assert "measured in the search, worker mode" in words(text)
    assert ids["wrong"][:8] not in text


def test_lineage_of_all_ancestors(ids: dict[str, str], call: Call) -> None:
    assert f"({ids['wrong'][:8]})" in call("lineage", "--all").output


def test_verify_tells_a_sound_store_from_a_damaged_one(ids: dict[str, str], call: Call, project: Path) -> None:
    sound = call("verify")
    assert (sound.exit_code, "is sound" in sound.output) == (0, True)
    with contextlib.closing(sqlite3.connect(project / "runs" / "gemm.db")) as database, database:
        database.execute("UPDATE candidates SET program_hash = 'x' WHERE id = ?", (ids["best"],))
    damaged = call("verify")
    assert damaged.exit_code == 1
    assert damaged.output.strip()
    assert "sound" not in damaged.output


@pytest.mark.parametrize("command", ["compare", "status", "best", "report"])
def test_a_command_that_meets_damage_says_so(ids: dict[str, str], call: Call, project: Path, command: str) -> None:
    fill_store(project / "other.db")
    with contextlib.closing(sqlite3.connect(project / "runs" / "gemm.db")) as database, database:
        database.execute("UPDATE evaluations SET timings = '[{', metrics = '{'")
    result = call(command, "runs/gemm.db", *(["other.db"] if command == "compare" else []))
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)
    assert "altered by hand" in result.stderr


def test_fork(ids: dict[str, str], call: Call, project: Path) -> None:
    result = call("fork", "runs/gemm.db", "best", "runs/next.db")
    assert result.exit_code == 0
    document = json.loads(call("best", "runs/next.db", "--json").output)
    assert document["candidate"] == ids["best"]
    assert call("fork", "runs/gemm.db", "best", "runs/next.db").exit_code == 2
    run = json.loads(call("status", "runs/gemm.db", "--json").output)["run_id"]
    call("status", "runs/next.db")
    text = words(call("status", "runs/next.db").output)
    assert text.startswith(f"fork of run {run}, not begun run ")
    assert "took along 3 candidates (100% right), with what was measured" in text
    assert "state not begun; `evokernel evolve CONFIG --store runs/next.db` begins it" in text
    assert not {"judged", "sandbox", "since", "next"} & set(text.split(" best kernel ")[0].split())


def test_a_misspelt_word_for_a_candidate_is_told(ids: dict[str, str], call: Call) -> None:
    said = words(call("show", "bset").stderr)
    assert "'bset' is no candidate id; ids are up to 16 hexadecimal digits; did you mean 'best'?" in said


def test_several_stores_ask_for_a_name(ids: dict[str, str], call: Call, project: Path) -> None:
    fill_store(project / "runs" / "other.db")
    result = call("best")
    assert result.exit_code == 2
    assert "runs/gemm.db, runs/other.db" in result.stderr


def test_a_store_moved_aside_is_not_counted(ids: dict[str, str], call: Call, project: Path) -> None:
    fill_store(project / "runs" / "gemm.2026-01-02T03-04-05.db")
    assert call("best").exit_code == 0


def test_a_config_names_its_store(ids: dict[str, str], call: Call, project: Path) -> None:
    text = "task: gemm\nstore: runs/gemm.db\nbudget: {evaluations: 1}\nislands: [{name: one, operators: {tune: 1}}]\n"
    (project / "mine.yaml").write_text(text)
    assert json.loads(call("best", "mine.yaml", "--json").output)["candidate"] == ids["best"]


PLAIN = "task: gemm\nbudget: {evaluations: 1}\nislands: [{name: one, operators: {tune: 1}}]\n"


def test_the_store_of_a_config_lies_beside_it_wherever_a_command_runs(
    project: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [fill_store(project / folder / "runs" / "x.db") for folder in "ab"]
    for folder in "ab":
        (project / folder / "x.yaml").write_text(PLAIN)
    monkeypatch.chdir(project / "a")
    shown = json.loads(call("status", "../b/x.yaml", "--json").output)
    assert (shown["store"], shown["best"]["candidate"]) == ("../b/runs/x.db", made[1]["best"])
    monkeypatch.chdir(project)
    assert call("compare", "a/x.yaml", "b/x.yaml").exit_code == 0


@pytest.mark.parametrize("task", ["gemm", "softmax"])
def test_a_store_under_the_working_folder_is_found_if_it_is_of_the_config(
    ids: dict[str, str], call: Call, project: Path, task: str
) -> None:
    with Store.open(project / "runs" / "gemm.db", write=True) as store:
        store.set_meta("config", PLAIN.replace("gemm", task))
    (project / "a").mkdir()
    (project / "a" / "gemm.yaml").write_text(PLAIN)
    found = call("best", "a/gemm.yaml")
    assert ("the store is runs/gemm.db" in found.stderr) is (found.exit_code == 0) is (task == "gemm")


FREE_MODEL = "model: m, price: {prompt_usd_per_mtok: 0, completion_usd_per_mtok: 0}"


@pytest.fixture
def asked(project: Path) -> str:
    """A store in which a model was asked; return the id of what it made."""
    with StoreBuilder(project / "runs" / "asked.db") as builder:
        seed = builder.seed(speedup=1.0)
        plan = builder.insight(Insight(InsightKind.STRATEGY, f"pack {EVIL}", "how", predicted_speedup=1.5))
        builder.say("hint", {"text": f"panels of 8 {EVIL}"})
        builder.call(status=CallStatus.FAILED, cost_usd=0.0, model=f"small {EVIL}")
        builder.call(cost_usd=0.0123, model=f"small {EVIL}")
        made = builder.add(
            "// made\n",
            speedup=3.0,
            parents=(seed,),
            operator="mutate",
            predicted_speedup=2.0,
            insights=(plan,),
            usage=Usage("small", 200, 100, 0.0123),
        )
        builder.call(model=f"small {EVIL}")
        builder.nothing("unusable: no code", exhausted=False)
    return made


def words(text: str) -> str:
    """Return the text with single blanks, however it was broken into lines and columns."""
    return " ".join(text.split())


def test_status_tells_what_models_gave_and_cost(asked: str, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "240")
    text = words(call("status").output)
    assert "models 3 calls, 900 tokens, $0.26" in text
    assert "insights 1" in text
    assert "hints panels of 8" in text
    assert "mutate 1 50% 3.00x 1 0 1 0 $0.26" in text
    assert "3 1 900 $0.26 1 50% 1" in text
    assert "plan 0 - - 0 0 0 1 -" in text


@pytest.mark.parametrize(("model", "said"), [("model: m", "unknown"), ("replay: r", "$0.00"), (FREE_MODEL, "$0.00")])
def test_a_cost_that_nobody_knows_is_not_zero(
    project: Path, call: Call, monkeypatch: pytest.MonkeyPatch, model: str, said: str
) -> None:
    monkeypatch.setenv("COLUMNS", "240")
    with StoreBuilder(project / "runs" / "free.db") as builder:
        builder.seed(speedup=1.0)
        builder.call(cost_usd=0.0)
        builder.nothing("unusable: no code", exhausted=False)
        builder.store.edit_config([], config=f"models: [{{name: main, {model}}}]")
        builder.call(cost_usd=0.0)
        made = builder.add("// made\n", speedup=2.0, operator="mutate", usage=Usage("small", 200, 100, 0.0))
    text, show = (words(call(*asked).output) for asked in (("status",), ("show", made)))
    assert f"small 2 0 600 {said}" in text
    assert ("models 2 calls, 600 tokens, cost unknown" in text) == (said == "unknown")
    assert ("1 call, 300 tokens, cost unknown" in show) == (said == "unknown")


def test_status_counts_calls_without_an_answer(project: Path, call: Call) -> None:
    with StoreBuilder(project / "runs" / "killed.db") as builder:
        builder.call(status=None)
        builder.call()
    text = words(call("status").output)
    assert "models 2 calls, 1.3k tokens, $1.25; 1 under way or lost" in text
    assert "small 2 0 1.3k $1.25 0 - 0" in text


def test_show_and_lineage_tell_how_a_candidate_was_made(
    asked: str, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "240")
    show, lineage = (words(call(command, asked).output) for command in ("show", "lineage"))
    assert "gain 3.00x over its first parent, in the search predicted 2.00x gain" in show
    assert "gain predicted operator" in lineage
    assert "3.00x 2.00x" in lineage
    for text in (show, lineage):
        assert "2 calls, 600 tokens, $0.0123" in text
        assert "strategy 2: pack [bold red]gotcha[/]" in text
        assert "predicted 1.50x" in text
        assert "panels of 8" in text


def test_show_json_of_what_a_model_made(asked: str, call: Call) -> None:
    proposal = json.loads(call("show", asked, "--json").output)["proposal"]
    assert (proposal["gain"], proposal["predicted_speedup"]) == (pytest.approx(3.0), 2.0)
    assert (proposal["calls"], proposal["tokens"], proposal["cost_usd"]) == (2, 600, 0.0123)
    (insight,) = proposal["insights"]
    assert (insight["seq"], insight["kind"], insight["predicted_speedup"]) == (2, "strategy", 1.5)
    assert [hint[:11] for hint in proposal["hints"]] == ["panels of 8"]
    status = json.loads(call("status", "--json").output)
    (model,) = status["models"].values()
    assert set(model) == {
        "calls", "failed", "open", "tokens", "cost_usd", "results", "correct", "unusable", "validity", "insights",
    }  # fmt: skip
    assert (model["calls"], model["failed"], model["validity"]) == (3, 1, 0.5)
    assert set(status["hints"][0]) == {"seq", "author", "island", "text"}


@pytest.mark.parametrize("width", ["60", "80", "200"])
@pytest.mark.parametrize("command", ["status", "show", "lineage"])
def test_words_of_models_and_people_fit_and_are_only_text(
    asked: str, call: Call, monkeypatch: pytest.MonkeyPatch, command: str, width: str
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    output = call(command).output
    assert not set(output) & set("\x1b\x07\u202e")
    assert max(len(line) for line in output.splitlines()) <= int(width)


@pytest.mark.parametrize(
    "command", [("status",), ("best",), ("show",), ("lineage",), ("lineage", "--all"), ("diff", "seed", "best")]
)
def test_words_of_strangers_are_only_text(project: Path, call: Call, command: tuple[str, ...]) -> None:
    with StoreBuilder(project / "runs" / "gemm.db") as builder:
        seed = builder.seed(source=f"// {EVIL}\n")
        builder.add(f"// best {EVIL}\n", speedup=2.0, parents=(seed,), operator=EVIL, island=EVIL, rationale=EVIL)
        builder.add("// bad\n", speedup=None, parents=(seed,), status=Status.COMPILE_ERROR, feedback=EVIL)
    result = call(*command)
    assert result.exit_code == 0
    assert not set(result.output) & set("\x1b\x07\u202e")
    if command != ("best",):
        assert "[bold" in result.output


@pytest.mark.parametrize("width", ["60", "80", "120"])
@pytest.mark.parametrize("command", ["status", "best", "show", "lineage"])
def test_no_line_is_wider_than_the_terminal_and_no_word_is_broken(
    ids: dict[str, str], call: Call, monkeypatch: pytest.MonkeyPatch, command: str, width: str
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    output = call(command).output
    lines = output.splitlines()
    assert max(len(line) for line in lines) <= int(width)
    assert not any(line.endswith(" ") for line in lines)
    monkeypatch.setenv("COLUMNS", "400")
    known = set(call(command).output.split())
    assert {word for word in output.split() if "─" not in word} <= known


def test_a_mode_that_is_not_the_usual_one_stands_beside_its_speedup(project: Path, call: Call) -> None:
    with StoreBuilder(project / "runs" / "mixed.db") as builder:
        seed = builder.seed(speedup=1.0)
        recorded = builder.add("// recorded\n", speedup=2.0, parents=(seed,), mode=Mode.ARTIFACT)
        builder.add("// two\n", speedup=1.5, parents=(seed,), mode=Mode.ARTIFACT)
        last = builder.add("// three\n", speedup=1.6, parents=(recorded,), mode=Mode.ARTIFACT)
        (status, lineage, best) = (call(*words).output for words in (["status"], ["lineage", last], ["best"]))
    assert "artifact; 1 in worker mode" in status
    assert "1.00x (worker mode)" in status
    assert "2.00x (" not in status
    assert "artifact mode unless said" in lineage
    assert "1.00x (worker mode)" in lineage
    assert f"seed {seed[:8]} (worker mode)" in best


def test_that_bits_differ_from_run_to_run_stands_beside_the_mode(project: Path, call: Call) -> None:
    with StoreBuilder(project / "runs" / "marked.db") as builder:
        builder.seed(speedup=1.0)
        proposal = builder.propose("// sums in any order\n")
        evaluation = builder.evaluation(proposal.candidate, speedup=2.0)
        builder.store.commit(proposal.step, replace(evaluation, metrics={NONDETERMINISTIC: 1.0}))
        shown = [call(*words).output for words in (["status"], ["best"], ["show", "best"])]
        documents = [json.loads(call(*words, "--json").output) for words in (["best"], ["show", "best"])]
    assert all("nondeterministic" in text for text in shown)
    assert documents[0]["nondeterministic"] is documents[1]["evaluations"][0]["nondeterministic"] is True


def test_status_shows_what_was_edited(ids: dict[str, str], project: Path, call: Call) -> None:
    assert "edited" not in call("status").output
    with Store.open(project / "runs" / "gemm.db", write=True) as store:
        store.edit_config([("budget.hours", None, 2), ("islands.a.operators.graft", 0.5, 1)], config="{}")
        store.edit_config([("prompts", "", EVIL)], config="{}")
    lines = " ".join(call("status").output.split())
    assert "edited budget.hours: absent -> 2 islands.a.operators.graft: 0.5 -> 1" in lines
    assert not set(call("status").output) & set("\x1b\x07\u202e")


def test_a_fork_of_what_failed_says_so(ids: dict[str, str], project: Path, call: Call) -> None:
    said = call("fork", "runs/gemm.db", ids["wrong"], "new.db").output
    assert f"{ids['wrong']} is no correct kernel (numerical): the search goes on from what is" in " ".join(said.split())
    assert "no correct kernel" not in call("fork", "runs/gemm.db", "best", "other.db").output
