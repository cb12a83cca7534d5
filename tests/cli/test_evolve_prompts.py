"""`evokernel evolve-prompts`: what it refuses, at no cost."""

from pathlib import Path

import pytest

from archive.store import Store
from evokernel.evolve_prompts.store import PromptStore
from tests.cli.asked import asking_config, engage
from tests.cli.conftest import Call
from tests.llm.endpoint import endpoint, says


@pytest.fixture
def runs(project: Path) -> Path:
    for name in ("one", "two"):
        engage(project / f"{name}.db", asking_config())
    return project


BOTH = ("one.db", "--held-out", "two.db")
MODEL = ("--model", "hosted_vllm/stub", "--api-base", "http://127.0.0.1:1/v1")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("mutate", *BOTH), "no model is named: add --model"),
        (("polish", *BOTH, *MODEL), "there is no prompt 'polish'; there are: contrast, crossover"),
        (("mutate", "one.db", "--held-out", "one.db", *MODEL), "named twice"),
        (("mutate", "one.db", *MODEL), "Missing option '--held-out'"),
        (("mutate", "none.db", "--held-out", "two.db", *MODEL), "there is no store at"),
        (("plan", *BOTH, *MODEL), "plan returns a strategy, which nothing measures"),
        (("mutate", *BOTH, *MODEL, "--calls", "16"), "16 calls are too few"),
        (("mutate", *BOTH, *MODEL, "--store", "one.db"), "holds a run"),
        (("mutate", *BOTH, *MODEL, "--prompts", "nowhere"), "nowhere is no folder"),
    ],
)
def test_what_cannot_be_evolved_is_refused_before_anything_is_asked(
    runs: Path, call: Call, words: tuple[str, ...], reason: str
) -> None:
    result = call("evolve-prompts", *words)
    assert result.exit_code == 2, result.output
    assert reason in result.output
    assert not (runs / "prompts").exists()
    assert sorted(path.name for path in runs.glob("**/*prompts*")) == []


def test_another_evolution_is_refused(runs: Path, call: Call) -> None:
    file = runs / "p.db"
    with Store.open(file, write=True) as opened:
        PromptStore(opened, {"operator": "mutate", "kernels": {}})
    with endpoint(says("ready")) as served:
        model = ("--model", "hosted_vllm/stub", "--api-base", served.url)
        result = call("evolve-prompts", "refine", *BOTH, *model, "--store", file)
    assert result.exit_code == 2
    assert "holds an evolution with operator mutate, and this one has refine" in result.output
