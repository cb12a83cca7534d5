"""Inductor's programs as seeds, made on a machine with a GPU and judged on it."""

import pytest

from evokernel.config.run import EvaluationConfig
from evokernel.evaluate.client.evaluate_kernel import judge
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Fidelity
from evokernel.scaffold.inductor.seed import inductor_seed


@pytest.mark.parametrize(
    "task",
    [
        "softmax",
        "add_rmsnorm",
        "gemm",
        "gemm_bias_gelu",
        "cross_entropy",
        "layernorm_backward",
        "embedding",
        "transpose",
    ],
)
def test_it_is_right_on_hidden_sizes_too(task: str) -> None:
    seed = Candidate(inductor_seed(task).text, "triton")
    last = judge(seed, task, budgets=(Fidelity.QUICK,), settings=EvaluationConfig()).last
    assert last.ok, last.feedback
    assert last.key.mode.value == "artifact"
