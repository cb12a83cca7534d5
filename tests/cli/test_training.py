"""`evokernel export --training` and `--check`."""

import json
import re
from pathlib import Path

import pytest

from archive.store import Store
from evokernel.offline.rule_prompts import rule_prompts
from evokernel.training.tables import read_kernels
from tests.cli.asked import asking_config, engage
from tests.cli.conftest import Call
from tests.support.stores import StoreBuilder
from tests.training.conftest import fill, remeasure


@pytest.fixture
def asked(project: Path) -> dict[str, str]:
    return fill(project / "runs" / "asked.db")


def test_write_and_check(project: Path, asked: dict[str, str], call: Call) -> None:
    written = call("export", "--training", "data", "--operator", "mutate", "--min-speedup", "1.5")
    assert written.exit_code == 0, written.output
    assert "supervised.jsonl  2 rows" in written.output
    assert {path.name for path in (project / "data").iterdir() if path.is_file()} == {
        "supervised.jsonl", "preference.jsonl", "schema.json", "dataset.json", "README.md",
    }  # fmt: skip
    assert "kernels/" in written.output
    table = call("export", "--check", "data/kernels/train.jsonl", "runs/asked.db")
    assert (table.exit_code, "sound" in table.output) == (0, True)
    choice = json.loads((project / "data" / "dataset.json").read_text())["choice"]
    assert (choice["operators"], choice["min_speedup"]) == (["mutate"], 1.5)
    sound = call("export", "--check", "data/supervised.jsonl", "--store", "runs/asked.db")
    assert (sound.exit_code, sound.stdout) == (0, "supervised.jsonl: 2 rows, sound\n")
    assert re.fullmatch(r"comparing supervised\.jsonl with \d+ facts\n", sound.stderr)
    remeasure(project / "runs" / "asked.db", asked["near"], None)
    spoilt = call("export", "--check", "data/supervised.jsonl", "runs/asked.db")
    assert spoilt.exit_code == 1
    assert "line 2 calls" in spoilt.output
    assert "1 of 2 rows are not sound" in spoilt.output


def test_runs_are_chosen_by_difficulty(project: Path, asked: dict[str, str], call: Call) -> None:
    """One of the nine kernels that operators made is wrong; the fault of ours and the seed do not count."""
    refused = call("export", "--training", "data", "runs/asked.db", "--difficulty", "0.5", "1")
    assert (refused.exit_code, (project / "data").exists()) == (2, False)
    assert "no run has a difficulty from 0.5 to 1; there are: asked.db 0.1111" in refused.stderr
    assert call("export", "--training", "data", "runs/asked.db", "--difficulty", "0.1", "0.5").exit_code == 0
    made = json.loads((project / "data" / "dataset.json").read_text())
    assert (made["difficulty"], made["runs"][0]["difficulty"]) == ([0.1, 0.5], pytest.approx(1 / 9))


def test_a_folder_that_cannot_be_made_is_a_message(project: Path, asked: dict[str, str], call: Call) -> None:
    (project / "file").write_text("in the way")
    refused = call("export", "--training", "file/data", "runs/asked.db")
    assert refused.exit_code == 2
    assert "Error: cannot write to file/data: File exists; name another folder" in refused.stderr


def test_the_prompt_for_a_child_of_a_rule_is_that_of_an_operator_at_that_moment(project: Path, call: Call) -> None:
    path, islands = project / "toy.db", [{"name": "one", "operators": {"tune": 1.0}}]
    engage(path, asking_config(islands=islands, budget={"evaluations": 5}))
    with Store.open(path, write=False) as store:
        proposals = [each.judged.result.proposal for each in read_kernels(store) if each.parent is not None]
        then = rule_prompts(store, proposals)
        sources = {each.judged.candidate_id: each.source for each in read_kernels(store)}
    assert then.keys() == {each.step for each in proposals}
    for proposal in proposals:
        system, user = then[proposal.step]
        assert (system.role, user.role) == ("system", "user")
        assert sources[proposal.parents[0]].strip() in user.text
        assert proposal.candidate.source.strip() not in user.text
    engage(path, asking_config(islands=islands, budget={"evaluations": 9}))
    with Store.open(path, write=False) as store:
        assert rule_prompts(store, proposals) == then
        steps = {each.judged.candidate_id: each.judged.result.proposal.step for each in read_kernels(store)}
    assert call("export", "--training", "data", path, "--format", "trl").exit_code == 0
    rows = [json.loads(line) for line in (project / "data" / "sft" / "train.jsonl").read_text().splitlines()]
    edits = [row for row in rows if row["form"] == "edit" and steps[row["candidate"]] in then]
    assert edits
    for row in edits:
        assert [each["content"] for each in row["prompt"]] == [each.text for each in then[steps[row["candidate"]]]]


def test_a_filter_that_nothing_can_pass_is_told(asked: dict[str, str], call: Call) -> None:
    made = call("export", "--training", "data", "runs/asked.db", "--operator", "refin", "--operator", "mutate")
    assert (made.exit_code, "warning" in made.stderr) == (0, False)
    made = call("export", "--training", "data", "runs/asked.db", "--operator", "refin", "--model", "nobody")
    assert made.exit_code == 0
    assert "warning: no run has the operator refin, so most tables are empty; there are " in made.stderr
    assert "warning: no run has the model nobody, so most tables are empty; there are " in made.stderr


def test_it_is_said_what_is_made_what_is_empty_and_what_is_cut(project: Path, call: Call) -> None:
    with StoreBuilder(project / "deep.db") as builder:
        name = builder.seed()
        for number in range(4):
            name = builder.add(f"// child {number}\n", speedup=2.0 + number, parents=(name,))
    made = call("export", "--training", "data", "deep.db", "--steps", "3")
    assert made.exit_code == 0, made.output
    assert "deep.db: making rows of " in made.stderr
    assert "\n  no rows, so left out: preference/, fixes/\n" in made.stdout
    assert "trajectories that are longer than 3 steps and hold only their last ones: 1; --steps 0 keeps all" in (
        " ".join(made.stdout.split())
    )
    assert "longer" not in call("export", "--training", "data", "deep.db").stdout


def test_a_prompt_that_lacks_its_task_is_told(project: Path, call: Call) -> None:
    """As where a run of own functions, or of another machine, is exported without its files."""
    with StoreBuilder(project / "own.db") as builder:
        builder.store.set_meta("config", "task: gone/my_task.py\n")
        builder.seed()
    made = call("export", "--training", "data", "own.db")
    assert made.exit_code == 0
    assert "warning: own.db: prompts only name the task, which cannot be used here: " in made.stderr


def test_a_check_of_no_file_says_which_files_there_are(asked: dict[str, str], call: Call, project: Path) -> None:
    assert call("export", "--training", "data", "runs/asked.db").exit_code == 0
    for name in ("data", "data/prefer.jsonl"):
        refused = call("export", "--check", name, "runs/asked.db")
        assert refused.exit_code == 2
        assert f"{name} cannot be read: " in refused.stderr
        assert "; in data there are data/fixes/train.jsonl, data/kernels/train.jsonl, " in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--training", "a", "--check", "b"), "--training writes and --check reads"),
        (("--training", "a", "--out", "b"), "--training DIR names the folder itself"),
        (("--check", "a", "--model", "b"), "--model belongs to --training"),
        (("--training", "a", "--sample", "2"), "--sample belongs to --check"),
        (("--difficulty", "0", "1"), "--difficulty belongs to --training"),
        (("--training", "a", "--difficulty", "0.8", "0.2"), "takes the lower bound first: 0.2 0.8"),
        (("--min-speedup", "2"), "--min-speedup belongs to --training"),
        (
            ("runs/asked.db", "--store", "runs/other.db"),
            "name one store, as an argument or with --store (--id names a kernel)",
        ),
    ],
)
def test_options_that_would_be_ignored_are_refused(
    asked: dict[str, str], call: Call, arguments: tuple[str, ...], reason: str
) -> None:
    result = call("export", *arguments)
    assert result.exit_code == 2
    assert reason in result.output
