"""`evokernel judge --self-test` on a GPU: all cheats are caught, all harmless kernels pass."""

import pytest

from evokernel.config.run import EvaluationConfig
from evokernel.records.evaluation import Mode
from evokernel.self_test.attack import attack, choose_kernel


@pytest.mark.parametrize(("task", "language"), [("softmax", "triton"), ("softmax", "cuda"), ("layernorm", "triton")])
def test_the_judge_passes_its_self_test(task: str, language: str) -> None:
    found = attack(task, choose_kernel(task, language=language), settings=EvaluationConfig(gpus=1))
    assert found.judged.key.mode is Mode.ARTIFACT
    assert {
        trial.exhibit.name: trial.evaluation.feedback
        for trial in found.trials
        if trial.ending.value in ("accepted", "rejected")
    } == {}
    assert found.ok
    assert len(found.trials) >= 10
