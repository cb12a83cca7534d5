"""`evokernel.evolve`: from a function to a run in one call, in a script and in a notebook."""

import asyncio
import importlib
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch

import evokernel
from evokernel.engine.search_session import UNBEATEN
from evokernel.errors import ConfigError, EvokernelError, RunMismatch, TaskError
from tests.judging.conftest import QUICK, TASK

pytestmark = pytest.mark.heavy
SHORT: dict[str, Any] = {"device": "cpu", "evaluation": QUICK}


def shifted(x: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    return torch.relu(x + shift)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_a_function_becomes_a_run_and_an_operator(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x, shift = torch.randn(96, 64), torch.randn(64)

    async def cell() -> evokernel.Run:
        return evokernel.evolve(shifted, x, shift, evaluations=2, **SHORT)

    with asyncio.run(cell()) as run:
        assert run.status().results == 2
        shown = capsys.readouterr().out
        assert "new best" in shown
        assert f"best kernel {run.best().candidate.id}" in shown
        operator = run.load()
        assert " anew, in fresh processes" in capsys.readouterr().out
        assert torch.allclose(operator(x, shift), shifted(x, shift), atol=1e-5)
        folder = run.facts.path.with_name(f"{run.facts.path.stem}-{run.best().candidate.id[:8]}")
        written = (folder / "provenance.json").stat().st_mtime_ns
        assert torch.equal(torch.compile(run.load(), backend="eager")(x, shift), operator(x, shift))
        assert (folder / "provenance.json").stat().st_mtime_ns == written
        path = run.facts.path
    assert path.parent.parent == Path("runs")
    with evokernel.evolve(shifted, x, shift, evaluations=3, progress=False, **SHORT) as run:
        assert (run.facts.path, run.status().results) == (path, 3)
    assert capsys.readouterr().out == ""
    assert len([*Path("runs").iterdir()]) == 1


@pytest.mark.slow
def test_a_task_and_its_config_share_a_store(here: Path) -> None:
    with evokernel.evolve(TASK, evaluations=1, progress=False, **SHORT) as run:
        assert run.facts.path == Path("runs/small_task/small_task.db")
        assert run.status().results == 1
    config = Path("runs/small_task/small_task.yaml")
    with evokernel.evolve(config, evaluations=2, store="runs/small_task/small_task.db", progress=False, **SHORT) as run:
        assert run.status().results == 2
    with pytest.raises(RunMismatch, match="seed"):
        evokernel.evolve(TASK, evaluations=3, progress=False, seed=7, **SHORT)


@pytest.mark.slow
def test_a_script_is_not_run_again_and_an_interrupt_gives_the_run_so_far(here: Path) -> None:
    script = here / "script.py"
    script.write_text(
        textwrap.dedent(f"""
        import torch
        import evokernel

        print("begins", flush=True)

        def tripled(x):
            return 3 * x + 1

        run = evokernel.evolve(tripled, torch.randn(64, 48), hours=1, **{SHORT!r})
        print("results", run.status().results, flush=True)
        """)
    )
    with subprocess.Popen(
        [sys.executable, str(script)], cwd=here, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if "new best" in line:
                process.send_signal(signal.SIGINT)
                break
        rest, _ = process.communicate(timeout=600)
    out = "".join(lines) + rest
    assert process.returncode == 0, out
    assert out.count("begins") == 1
    assert "interrupted: finishing what is in flight" in out
    assert int(out.rpartition("results ")[2]) >= 1


def test_what_cannot_be_searched_is_said(here: Path) -> None:
    for name, meant in (("thread", "threads"), ("hourz", "hours")):
        settings: dict[str, Any] = {name: 2}
        with pytest.raises(ConfigError, match=rf"{name}: .*'{meant}'"):
            evokernel.evolve(shifted, **settings)
    with pytest.raises(TaskError, match=r"needs an example of x, shift: .*by position behind the function"):
        evokernel.evolve(shifted)
    assert [*here.rglob("*.yaml")] == []
    (here / "of_a_file.py").write_text("def added(x, y):\n    return x + y\n")
    sys.path.append(str(here))
    try:
        added = importlib.import_module("of_a_file").added
    finally:
        sys.path.remove(str(here))
    for folder in ("new", "runs"):
        with pytest.raises(TaskError, match="needs an example of x, y"):
            evokernel.evolve(added, folder=folder)
    assert not (here / "new").exists()
    (here / "file").write_text("")
    with pytest.raises(TaskError, match=r"cannot write to file/small_task: .*folder="):
        evokernel.evolve(TASK, folder="file")
    with pytest.raises(ConfigError, match="example inputs belong to a function"):
        evokernel.evolve("gemm", 3)
    with pytest.raises(ConfigError, match=r"there is no config nothing\.yaml"):
        evokernel.evolve("nothing.yaml")
    with pytest.raises(EvokernelError, match="unknown task 'nothing'"):
        evokernel.evolve("nothing")
    with pytest.raises(ConfigError, match=r"budget\.hours: .*given -1"):
        evokernel.evolve(TASK, hours=-1)
    with pytest.raises(ConfigError, match=r"budget\.stoppers\.0: .*nowhere"):
        evokernel.evolve(TASK, evaluations=1, budget={"stoppers": ["nowhere:Rule"]})
    assert [*here.rglob("*.db")] == []


@pytest.mark.slow
def test_a_notebook_defines_searches_and_judges(here: Path) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    cells = [
        "import torch\nimport evokernel\nSCALE = 0.5",
        "def halved(x):\n    return SCALE * x.abs()",
        f"run = evokernel.evolve(halved, torch.randn(64, 48), evaluations=1, **{SHORT!r})\nrun.status().results",
        f"with evokernel.Judge(halved, torch.randn(64, 48), **{SHORT!r}) as judge:\n"
        "    found = judge(run.candidate('seed').source)\nfound",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
    quiet = ["--IPKernelApp.log_level=ERROR"]  # it warns of any port, also of one on loopback
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3", extra_arguments=quiet).execute()
    _, _, search, judged = ("".join(map(str, cell.outputs)) for cell in notebook.cells)
    assert "'text/plain': '1'" in search
    assert " holds" in search or UNBEATEN in search, "the progress is shown where the search was called"
    assert "ok at quick timing, worker mode: " in judged
    assert "Evaluation(" not in judged
