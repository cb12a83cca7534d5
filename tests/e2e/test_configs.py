"""The configs of the built-in tasks run as they are, but for shorter clocks: a few evaluations on a processor."""

import json
from pathlib import Path

import pytest

from evokernel.config.load import load_config
from evokernel.engine.search_session import UNBEATEN
from evokernel.tasks import load_task
from tests.e2e.kill_and_resume import SHORT_CLOCKS
from tests.e2e.test_evolve import evokernel, here

pytestmark = pytest.mark.slow

CONFIGS = Path(__file__).parents[2] / "configs"
RUN = [
    path
    for path in sorted(CONFIGS.glob("*.yaml"))
    if load_config(path).device == "auto" and "cpu" in load_task(load_config(path).task).workloads
]


SEARCHED = ("histogram", "softmax", "transpose")
"""Of these a second kernel is judged; what operators make of the seeds of others, tests/operators shows."""


@pytest.mark.parametrize("config", RUN, ids=lambda path: path.stem)
def test_a_config_runs_as_it_is(config: Path, tmp_path: Path) -> None:
    store, budget = str(tmp_path / "run.db"), 2 if config.stem in SEARCHED else 1
    chosen = ("--budget", f"evaluations={budget}", "--set", "device=cpu", "--store", store, *SHORT_CLOCKS)
    done = evokernel("evolve", str(config), *chosen, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"budget of {budget} evaluation" in done.stdout
    best = json.loads(here("best", store, "--json"))
    assert best["holdout"] == ("pending" if UNBEATEN in done.stdout else "passed"), done.stdout
    assert best["language"] == "cpp"
