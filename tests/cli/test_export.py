"""`evokernel export` with real processes: the files work, and a kernel that does not hold is kept back."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from archive.store import Store
from evokernel.config.load import parse_config
from evokernel.evaluate.client.evaluate_kernel import judge
from evokernel.records.candidate import Candidate, Proposal
from evokernel.records.evaluation import Evaluation, Fidelity
from tests.cli.conftest import Call
from tests.cli.tools_task import place_task
from tests.support.exports import run_beside, store_run

USE = """\
import torch, kernel
a, b = torch.randn(20, 30), torch.randn(30, 10)
torch.testing.assert_close(kernel.run(a, b), a @ b)
out = torch.empty(20, 10)
assert kernel.run(a, b, out=out) is out
for wrong, error in (((a.T, b), ValueError), ((a.double(), b), TypeError), ((a, b[:7]), ValueError)):
    try:
        kernel.run(*wrong)
    except error:
        continue
    raise SystemExit(f"{wrong} was taken")
flat = torch.empty(1000)
try:
    kernel.run(flat[:600].view(20, 30), b, out=flat[512:712].view(20, 10))
except ValueError as error:
    print(error)
"""


def words(text: str) -> str:
    return " ".join(text.split())


def make_store(project: Path) -> dict[str, str]:
    """Write a run with a right kernel, which was really judged, and one that reads beyond its inputs."""
    task, kernel = place_task(project)
    config = parse_config(
        {
            "task": str(task),
            "store": "runs/small.db",
            "budget": {"evaluations": 1},
            "evaluation": {"quick_ms": 2, "precise_ms": 2, "final_ms": 5, "final_processes": 1},
            "islands": [{"name": "one", "operators": {"rewrite": 1}}],
        },
        "the test",
    )
    right = Candidate(kernel.read_text(encoding="utf-8"), "cpp")
    wrong = Candidate(right.source.replace("k < K", "k < K - (K == 48)"), "cpp")  # only the held-out workload tells
    judged = judge(right, str(task), budgets=(Fidelity.PRECISE,), settings=config.evaluation)
    store_run(project / "runs" / "small.db", config, judged, wrong)
    final = replace(judged.last, key=replace(judged.last.key, budget=Fidelity.FINAL))
    # slower than torch whatever the machine was busy with while both were measured
    final = replace(final, timings=tuple(replace(timing, log_speedup=-3.0, log_error=0.1) for timing in final.timings))
    store_run(project / "runs" / "ended.db", config, replace(judged, evaluations=(judged.last, final)))
    store_run(project / "runs" / "late.db", config, judged)
    with Store.open(project / "runs" / "late.db", write=True) as store:
        early, late = (Candidate(f"{right.source}// {step}\n", "cpp") for step in (1, 2))
        for step, each in enumerate((early, late), start=1):
            store.propose(Proposal(each, step, "one", "rewrite", 0), program_hash=f"{step}" * 16, skeleton="s")
            store.commit(step, as_if(judged.last, each, step))
        store.add_evaluation(as_if(final, early, -1))
    return {"right": right.id, "wrong": wrong.id, "early": early.id, "late": late.id}


def as_if(found: Evaluation, candidate: Candidate, gain: int) -> Evaluation:
    """Return an evaluation as if it were of another candidate, faster by the exponential of a gain, and surely so."""
    timings = tuple(replace(each, log_speedup=each.log_speedup + gain, log_error=0.1) for each in found.timings)
    key = replace(found.key, program_hash=f"{abs(gain)}" * 16)
    return replace(found, key=key, candidate_id=candidate.id, timings=timings)


@pytest.fixture
def made(project: Path) -> dict[str, str]:
    return make_store(project)


@pytest.mark.slow
def test_export(project: Path, made: dict[str, str], call: Call) -> None:
    slower = call("export", "runs/small.db", "--out", "taken", "--accept-from", 1000)
    assert slower.exit_code == 2, slower.output
    assert "sizes between them" not in slower.output
    torch = "torch (the baseline reference)"
    assert f"not exported, since nowhere faster than {torch}: {made['right']}. The best is " in words(slower.output)
    assert "judged again" not in slower.output
    ended = call("export", "runs/ended.db", "--out", "taken")
    assert ended.exit_code == 2, ended.output
    assert "The best is 0." in ended.output
    assert "The run itself measured that; nothing was judged again" in words(ended.output)
    assert "leads the search" not in ended.output
    assert json.loads(call("best", "runs/late.db", "--json").output)["candidate"] == made["early"]
    hidden = call("export", "runs/late.db", "--id", "best", "--out", "taken")
    assert hidden.exit_code == 2, hidden.output
    assert f"But {made['late']} leads the search, and `--id {made['late'][:8]}` takes that" in words(hidden.output)
    assert not (project / "taken").exists()
    late = call("export", "runs/late.db", "--out", "late", "--sizes", 0, "--accept-from", 0)
    assert late.exit_code == 0, late.output
    assert f"{made['late']} leads the search with" in words(late.stderr)
    assert f"exported {made['late']}" in late.stdout
    result = call("export", "runs/small.db", "--out", "taken", "--sizes", 0, "--accept-from", 0)
    assert (result.exit_code, made["right"] in result.output) == (0, True), result.output
    assert [line.split(" ")[0] for line in result.stderr.splitlines()] == ["loading", "trying", "judging", "trying"]
    folder = project / "taken"
    assert {path.name for path in folder.iterdir()} == {
        *("kernel.cpp", "kernel.py", "op.py", "reference.py", "README.md", "provenance.json")
    }
    facts = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
    assert facts["candidate"] == made["right"]
    assert facts["final"]["evaluations"][0]["budget"] == "final"
    assert facts["lineage"][0]["operator"] == "seed"
    assert facts["evaluations"]
    assert "overlaps" in run_beside(folder, USE, XDG_CACHE_HOME=str(project))

    refused = call("export", "runs/small.db", "--id", made["wrong"], "--out", "other")
    assert refused.exit_code == 2
    assert "was not exported: measured again on held-out inputs it failed" in refused.output
    assert not (project / "other").exists()

    task = project / "small_task.py"
    task.write_text(task.read_text(encoding="utf-8") + "# edited\n", encoding="utf-8")
    changed = call("export", "runs/small.db", "--out", "third")
    assert changed.exit_code == 2
    assert "is not the one this kernel was found for" in changed.output


def test_folder_with_other_files_is_left_alone(project: Path, ids: dict[str, str], call: Call) -> None:
    (project / "mine").mkdir()
    (project / "mine" / "thesis.tex").touch()
    result = call("export", "--id", ids["best"], "--out", "mine")
    assert result.exit_code == 2
    assert "holds other files" in result.output


def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_judged(
    project: Path, ids: dict[str, str], call: Call
) -> None:
    result = call("export", "--id", ids["best"], "--out", "/proc/taken")
    assert result.exit_code == 2
    assert result.output.splitlines() == [
        "loading the task and its tool chain",
        "Error: cannot write to /proc/taken: No such file or directory; name another folder",
    ]
