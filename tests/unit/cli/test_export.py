"""`evokernel export` with real processes: the files work, and a kernel that does not hold is kept back."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from archive.identity import RunIdentity
from archive.store import Store
from evokernel.candidate import Candidate, Proposal
from evokernel.config import dump_config, parse_config
from evokernel.evaluation import Budget
from evokernel.judging import judge
from tests.unit.cli.conftest import Call
from tests.unit.cli.tools_task import place_task

USE = """\
import sys
sys.modules["evokernel"] = None
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
    judged = judge(right, str(task), budgets=(Budget.PRECISE,), settings=config.evaluation)
    identity = judged.identity
    with Store.open(project / "runs" / "small.db", write=True) as store:
        store.session_start()
        store.begin_run(
            RunIdentity(
                task=config.task,
                task_hash=identity.task_hash,
                seed=0,
                language="cpp",
                device=identity.device,
                environment=identity.environment,
                evokernel_version="0.1.0",
                task_spec={},
            )
        )
        store.set_meta("config", dump_config(config))
        for step, candidate in enumerate((right, wrong)):
            proposal = Proposal(candidate, step, "one", "seed" if not step else "rewrite", 0)
            program = judged.last.key.program_hash if not step else "f" * 16
            store.propose(proposal, program_hash=program, skeleton="s")
        store.commit(0, judged.last)
        store.session_end("test")
    return {"right": right.id, "wrong": wrong.id}


@pytest.fixture
def made(project: Path) -> dict[str, str]:
    return make_store(project)


def test_export(project: Path, made: dict[str, str], call: Call) -> None:
    result = call("export", "runs/small.db", "--out", "taken")
    assert result.exit_code == 0, result.output
    assert made["right"] in result.output
    folder = project / "taken"
    assert {path.name for path in folder.iterdir()} == {
        *("kernel.cpp", "kernel.py", "op.py", "reference.py", "README.md", "provenance.json")
    }
    facts = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
    assert facts["candidate"] == made["right"]
    assert facts["final"]["evaluations"][0]["budget"] == "final"
    assert facts["lineage"][0]["operator"] == "seed"
    assert facts["evaluations"]
    done = subprocess.run(
        [sys.executable, "-c", USE], cwd=folder, capture_output=True, text=True, check=False,
        env={"PATH": "/usr/bin:/bin", "XDG_CACHE_HOME": str(project), "PYTHONPATH": str(folder)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "overlaps" in done.stdout

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
