"""The Python API on a GPU: a warm judge, its map, and a search in one call with its operator."""

from pathlib import Path

import pytest
import torch

import evokernel
from evokernel.records.evaluation import Mode, Status
from evokernel.tasks import load_task

TASK = Path(__file__).parent / "softmax_task.py"


@pytest.fixture
def seed() -> str:
    return load_task(str(TASK)).seeds["triton"].read_text()


def test_a_warm_judge_takes_right_and_wrong_kernels(seed: str) -> None:
    with evokernel.Judge(TASK, language="triton") as judge:
        found = judge.map([seed, "def run(:\n", seed + "\n\n# the same again\n"])
    assert [each.status for each in found] == [Status.OK, found[1].status, Status.OK]
    assert found[1].status is not Status.OK
    assert found[0].key.mode is Mode.ARTIFACT
    assert str(found[0]).startswith("ok at quick timing, artifact mode: ")


def test_a_search_in_one_call_gives_an_operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with evokernel.evolve(TASK, evaluations=3, device="cuda", progress=False) as run:
        assert run.status().results == 3
        operator = run.load()
    sizes = load_task(str(TASK)).workloads["cuda"].search[0].sizes
    x = torch.randn(int(sizes["R"]), int(sizes["C"]), device="cuda")
    assert torch.allclose(operator(x), torch.softmax(x, dim=1), atol=1e-5)
