"""`evokernel ask` and `tell`: prompts leave a run as files, and answers come back through its inbox."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from archive.store import Store
from evokernel.cli.tell import _fates
from evokernel.config.run import RunConfig, dump_config
from evokernel.languages.device_limits import DeviceLimits
from evokernel.llm.recordings import ReplyRecording
from evokernel.offline.answers import fates
from evokernel.offline.folder import MANIFEST, read_manifest
from evokernel.offline.prompts import limits_from
from tests.cli.asked import FASTER, TASK, asking_config, engage
from tests.cli.conftest import Call
from tests.support.stores import IDENTITY


@pytest.fixture
def store(project: Path) -> Path:
    path = project / "toy.db"
    engage(path, asking_config())
    return path


def answer(folder: Path, name: str, *, extra: int = 1) -> None:
    """Answer one prompt with an edit of the kernel in it."""
    page = (folder / f"{name}.md").read_text(encoding="utf-8")
    before = re.search(r"constexpr int A = (\d+);", page)
    assert before
    (folder / f"{name}.reply.md").write_text(FASTER.format(before=before[1], extra=extra), encoding="utf-8")


def handed_in(path: Path) -> list[dict[str, object]]:
    with Store.open(path, write=False) as opened:
        return [json.loads(row["payload"]) for row in opened.database.rows("SELECT payload FROM inbox ORDER BY id")]


def test_a_prompt_is_a_file_with_all_that_is_needed(store: Path, call: Call, project: Path) -> None:
    result = call("ask", store, "-n", 2, "--out", "out")
    assert result.exit_code == 0, result.output
    page = (project / "out" / "001-mutate.md").read_text(encoding="utf-8")
    for expected in (
        "001-mutate.reply.md",
        "<!-- system -->",
        "<!-- user -->",
        "toy device",
        "a @ b",
        "The device, as measured",
    ):
        assert expected in page
    assert 'extern "C" void run(const float* a' in page  # the guide, for the task's own signature
    assert "<<<<<<< SEARCH" in page
    manifest = read_manifest(project / "out")
    with Store.open(store, write=False) as opened:
        assert (manifest.run_id, manifest.seq) == (opened.meta("run_id"), opened.last_seq())
        assert [each.origin.step for each in manifest.questions] == [opened.next_step(), opened.next_step() + 1]
        best = opened.best(1)[0].candidate.candidate.id
    assert manifest.questions[0].origin.parents == (best,)
    assert manifest.questions[0].messages[1].text.strip() in page
    assert sorted(path.name for path in (project / "out").iterdir()) == ["001-mutate.md", "002-mutate.md", MANIFEST]


def test_asking_again_says_the_same_and_a_repeated_prompt_asks_for_another_idea(
    store: Path, call: Call, project: Path
) -> None:
    for out in ("one", "two"):
        assert call("ask", store, "-n", 3, "--out", out).exit_code == 0
    assert (project / "one" / MANIFEST).read_bytes() == (project / "two" / MANIFEST).read_bytes()
    repeats = [question.repeats for question in read_manifest(project / "one").questions]
    assert repeats == [False, True, True]  # one kernel, so there is one thing to ask
    assert "have a different idea" in (project / "one" / "002-mutate.md").read_text(encoding="utf-8")


def test_a_hint_that_nobody_has_taken_in_is_in_the_prompt(store: Path, call: Call, project: Path) -> None:
    assert call("hint", store, "mind the cache lines").exit_code == 0
    assert call("ask", store, "-n", 1, "--out", "out").exit_code == 0
    assert "mind the cache lines" in (project / "out" / "001-mutate.md").read_text(encoding="utf-8")


def test_the_config_counts_where_it_is_named(store: Path, call: Call, project: Path) -> None:
    config = asking_config(
        islands=[{"name": "one", "operators": {"plan": 1}}, {"name": "two", "operators": {"tune": 1}}]
    )
    (project / "other.yaml").write_text(json.dumps({**config.model_dump(mode="json"), "store": str(store)}))
    result = call("ask", "other.yaml", "-n", 1, "--out", "out")
    assert result.exit_code == 0, result.output
    assert (project / "out" / "001-plan.md").exists()
    assert call("tell", store, "out").exit_code == 2  # the run has no such operator
    result = call("tell", store, "out")
    assert "no such operator" in result.stderr


def test_a_config_that_cannot_judge_is_refused_before_anything_is_asked_or_handed_in(
    store: Path, call: Call, project: Path
) -> None:
    config = {**asking_config(seed=77).model_dump(mode="json"), "store": str(store)}
    (project / "other.yaml").write_text(json.dumps(config))
    asked = call("ask", "other.yaml", "-n", 1, "--out", "out")
    assert (asked.exit_code, f"or name {store} in place of the config" in asked.stderr) == (2, True)
    assert not (project / "out").exists()
    assert call("ask", store, "-n", 1, "--out", "out").exit_code == 0
    answer(project / "out", "001-mutate")
    for more in ((), ("--queue",)):
        told = call("tell", "other.yaml", "out", *more)
        assert (told.exit_code, "repeat the --set that the run began with" in told.stderr) == (2, True)
    assert handed_in(store) == []


def test_a_run_on_a_gpu_is_asked_where_there_is_none(call: Call, project: Path) -> None:
    islands = [{"name": "one", "operators": {"draft": 1}}]
    config = RunConfig.model_validate(
        {"task": "softmax", "language": "triton", "budget": {"evaluations": 1}, "islands": islands}
    ).on("cuda")
    identity = replace(IDENTITY, task="softmax", language="triton", device="NVIDIA L40S")
    with Store.open(project / "gpu.db", write=True) as opened:
        opened.begin_run(identity)
        opened.set_meta("config", dump_config(config))
        opened.set_meta("device_sheet", json.dumps({"capability": 89, "shared_bytes": 101376, "multiprocessors": 142}))
    result = call("ask", project / "gpu.db", "-n", 1, "--out", "out")
    assert result.exit_code == 0, result.output
    page = (project / "out" / "001-draft.md").read_text(encoding="utf-8")
    assert "compute capability 8.9, 142 multiprocessors, 101376 bytes" in " ".join(page.split())
    assert "NVIDIA L40S" in page


def test_what_cannot_be_asked(store: Path, call: Call, project: Path) -> None:
    result = call("ask", store, "--out", "out", "--operator", "port")
    assert result.exit_code == 2
    assert "the islands have mutate, repair" in " ".join(result.stderr.split())
    assert "there is nothing to ask" in call("ask", store, "--out", "out", "--operator", "repair").output
    assert not (project / "out").exists()
    assert "there is no store at" in call("ask", project / "nowhere.db", "--out", "out").stderr
    rules = project / "rules.db"
    engage(rules, asking_config(islands=[{"name": "one", "operators": {"tune": 1}}]))
    result = call("ask", rules, "--out", "out")
    assert result.exit_code == 2
    assert "mutate, plan" in " ".join(result.stderr.split())
    with Store.open(project / "empty.db", write=True):
        pass
    assert "holds no run yet" in call("ask", project / "empty.db", "--out", "out").stderr


def test_prompts_that_were_not_told_are_not_given_up(store: Path, call: Call, project: Path) -> None:
    ask = ("ask", store, "-n", 2, "--out", "out")
    assert call(*ask).exit_code == 0
    answer(project / "out", "001-mutate")
    result = call(*ask)
    assert result.exit_code == 2
    assert "2 prompts that are not answered and told" in " ".join(result.stderr.split())
    assert call(*ask, "--force").exit_code == 0
    assert [question.name for question in read_manifest(project / "out").questions] == ["003-mutate", "004-mutate"]
    assert not (project / "out" / "002-mutate.md").exists()
    assert (project / "out" / "001-mutate.reply.md").exists()  # what somebody wrote stays


def test_an_answer_becomes_a_judged_kernel_with_its_lineage(store: Path, call: Call, project: Path) -> None:
    out = project / "out"
    assert call("ask", store, "-n", 2, "--out", "out").exit_code == 0
    answer(out, "001-mutate")
    (out / "002-mutate.reply.md").write_text("I would rather not.", encoding="utf-8")
    with Store.open(store, write=False) as opened:
        seq = opened.last_seq()
    result = call("tell", store, "out", "--queue", "--model", "a person")
    assert result.exit_code == 0, result.output
    assert "2 handed in" in result.output
    engage(store, asking_config(), handed_in_only=True)
    with Store.open(store, write=False) as opened:
        found = fates(opened, [1, 2], after=seq)
        proposal = opened.proposal_of(found[1].candidate)
        assert opened.verify() == []
    assert [fate.status for fate in found.values()] == ["ok", "unusable"], found
    assert found[1].speedup is not None
    assert proposal is not None
    assert (proposal.operator, proposal.island, proposal.usage.model) == ("mutate", "one", "a person")
    assert proposal.parents == read_manifest(out).questions[0].origin.parents
    assert (proposal.rationale, proposal.predicted_speedup) == ("mutate: eight at once", 1.5)
    assert _fates({"001-mutate": found[1], "002-mutate": found[2]}).row_count == 2


def test_an_answer_is_told_once(store: Path, call: Call, project: Path) -> None:
    out = project / "out"
    assert call("ask", store, "-n", 2, "--out", "out").exit_code == 0
    answer(out, "001-mutate")
    untold = (out / MANIFEST).read_bytes()
    assert "1 handed in, 1 without an answer" in call("tell", store, "out", "--queue").output
    assert "0 handed in, 1 told before" in call("tell", store, "out", "--queue").output
    (out / MANIFEST).write_bytes(untold)  # a copy of the folder, from another machine
    assert "0 handed in, 1 told before" in call("tell", store, "out", "--queue").output
    answer(out, "001-mutate", extra=2)
    answer(out, "002-mutate", extra=3)
    assert "2 handed in" in call("tell", store, "out", "--queue").output
    assert len(handed_in(store)) == 3
    assert call("ask", store, "-n", 1, "--out", "out").exit_code == 0  # all were told
    assert [question.name for question in read_manifest(out).questions] == ["003-mutate"]


def test_a_file_that_is_no_answer_keeps_no_other_back(store: Path, call: Call, project: Path) -> None:
    out = project / "out"
    assert call("ask", store, "-n", 4, "--out", "out").exit_code == 0
    (out / "001-mutate.reply.md").write_bytes(b"\xff\xfe\x00kernel")
    (out / "002-mutate.reply.md").write_bytes(b"x" * 2_000_001)
    (out / "003-mutate.reply.md").write_text("\n \n")
    answer(out, "004-mutate")
    result = call("tell", store, "out", "--queue")
    assert result.exit_code == 1
    said = " ".join(result.stderr.split())
    assert "no UTF-8 text" in said
    assert "longer than 2000000 bytes" in said
    assert "1 handed in, 1 without an answer, 2 that cannot be read" in result.stdout
    assert len(handed_in(store)) == 1


def test_prompts_of_another_run_are_refused(store: Path, call: Call, project: Path) -> None:
    assert call("ask", store, "-n", 1, "--out", "out").exit_code == 0
    answer(project / "out", "001-mutate")
    other = project / "other.db"
    engage(other, asking_config())
    result = call("tell", other, "out", "--queue")
    assert result.exit_code == 2
    assert "these are prompts of run" in result.stderr
    assert handed_in(other) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [('"format": 1', '"format": 9'), ('"001-mutate"', '"../escape"'), ('"system"', '"tool"'), ("{", "[")],
)
def test_a_manifest_that_somebody_has_changed_is_a_message(
    store: Path, call: Call, project: Path, before: str, after: str
) -> None:
    assert call("ask", store, "-n", 1, "--out", "out").exit_code == 0
    path = project / "out" / MANIFEST
    path.write_text(path.read_text().replace(before, after, 1))
    result = call("tell", store, "out", "--queue")
    assert result.exit_code == 2
    assert MANIFEST in result.stderr
    assert handed_in(store) == []


def test_another_engine_takes_the_answers_in(store: Path, call: Call, project: Path) -> None:
    assert call("ask", store, "-n", 1, "--out", "out").exit_code == 0
    answer(project / "out", "001-mutate")
    with Store.open(store, write=True):
        result = call("tell", store, "out")
    assert result.exit_code == 0, result.output
    assert "takes the answers in" in " ".join(result.output.split())
    assert len(handed_in(store)) == 1


CONFIG = """
task: {task}
store: run.db
budget: {{evaluations: 2}}
evaluation: {{quick_ms: 4, precise_ms: 8, final_ms: 10, final_processes: 1, compile_timeout_s: 120}}
islands: [{{name: one, operators: {{mutate: 1, rewrite: 1}}}}]
"""


@pytest.mark.slow
def test_a_real_run_is_asked_and_told(call: Call, project: Path) -> None:
    (project / "run.yaml").write_text(CONFIG.format(task=TASK))
    assert call("evolve", "run.yaml").exit_code == 0
    result = call("ask", "run.yaml", "-n", 2, "--out", "out", "--operator", "mutate")
    assert result.exit_code == 0, result.output
    pages = [question.name for question in read_manifest(project / "out").questions]
    page = (project / "out" / f"{pages[0]}.md").read_text(encoding="utf-8")
    signature = re.search(r'extern "C" void run\(.*?\)', page, re.DOTALL)
    assert signature
    for name, body in zip(pages, (RIGHT, "    c[0] = 1.0f;"), strict=True):
        text = f"IDEA: {name}\n\n```cpp\n#include <cstdint>\n{signature[0]} {{\n{body}\n}}\n```\n"
        (project / "out" / f"{name}.reply.md").write_text(text)
    result = call("tell", "run.yaml", "out", "--model", "a person")
    assert result.exit_code == 0, result.output
    assert "2 handed in" in result.output
    rows = {line.split()[0]: line for line in result.output.splitlines() if line.strip().startswith(tuple(pages))}
    assert re.search(r"\d\.\d+x\s+ok", rows[pages[0]])
    assert "unwritten_output" in rows[pages[1]]
    assert "2 told before" in call("tell", "run.yaml", "out").output
    with Store.open(project / "run.db", write=False) as opened:
        assert opened.verify() == []
        assert opened.open_leases() == []


RIGHT = """    for (int64_t i = 0; i < M; ++i)
        for (int64_t j = 0; j < N; ++j) {
            float sum = 0.0f;
            for (int64_t k = 0; k < K; ++k) sum += a[i * K + k] * b[k * N + j];
            c[i * N + j] = sum;
        }"""


def test_the_limits_of_a_gpu_come_from_what_was_measured_on_it() -> None:
    measured = {"capability": 89.0, "shared_bytes": 101376.0, "multiprocessors": 58.0, "l2_bytes": 5e7}
    limits = limits_from(measured)
    assert (limits.capability, limits.multiprocessors, limits.multiprocessor_threads) == (89, 58, 1536)
    assert limits_from({}) == DeviceLimits()


def test_replies_are_recorded_into_a_new_file_only(store: Path, call: Call, project: Path) -> None:
    empty = call("record", str(store), "new/replies.jsonl")
    assert (empty.exit_code, "holds no replies" in empty.stderr) == (2, True)
    assert not (project / "new").exists()
    call("ask", str(store), "-n", "1", "--out", "r1")
    (page,) = (project / "r1").glob("001-*.md")
    page.with_suffix(".reply.md").write_text("no idea")
    call("tell", str(store), "r1", "--queue")
    engage(store, asking_config(), handed_in_only=True)
    assert call("record", str(store), "replies.jsonl").exit_code == 0
    assert call("record", str(store), "deep/er/replies.jsonl").exit_code == 0
    (reply,) = ReplyRecording.load(project / "replies.jsonl").steps().values()
    assert (reply.text, reply.operator) == ("no idea", page.stem.partition("-")[2])
    again = call("record", str(store), "replies.jsonl")
    assert (again.exit_code, "exists already" in again.stderr) == (2, True)
    assert len(ReplyRecording.load(project / "replies.jsonl")) == 1
