"""Which rewrites a task's sizes call for, and that the operator draws them first."""

import asyncio
from collections import Counter

import pytest

from evokernel.records.candidate import Candidate
from evokernel.records.fitness import Elite, Fitness
from evokernel.records.step import Context
from evokernel.source.tunables import read_tunables, skeleton_hash
from evokernel.task import Task
from evokernel.tasks import load_task
from operators.rewrites.triton import TRITON_REWRITES
from operators.rules.rewrite import Rewrite
from tests.operators.rewrites.triton.sources import GEMM


def context(task: Task, step: int) -> Context:
    """One in which the plain kernel is all there is."""
    made = Candidate(GEMM, "triton")
    elite = Elite(made, Fitness(0.0, 0.0), {}, 1, made.id, skeleton_hash(GEMM))
    nothing: frozenset[str] = frozenset()
    return Context(step, 1, "one", task, "triton", 1, (elite,), (), nothing, nothing, {}, {})


@pytest.mark.parametrize(("name", "kinds"), [("gemm", set()), ("softmax", set()), ("gemm_deep", {"split_k"})])
def test_a_long_sum_with_few_results_calls_for_shares(name: str, kinds: set[str]) -> None:
    always = {"row_alignment"}
    assert TRITON_REWRITES.favoured(load_task(name)) == kinds | always <= TRITON_REWRITES.by_name.keys()


def test_a_task_without_a_gpu_calls_for_nothing() -> None:
    assert TRITON_REWRITES.favoured(load_task("gemm").on("cpu")) == frozenset()


def test_the_operator_draws_them_more_often() -> None:
    assert "SPLIT_PER_SM" not in read_tunables(GEMM).values
    drawn = {}
    for name in ("gemm", "gemm_deep"):
        task = load_task(name).on("cuda")
        drafts = [asyncio.run(Rewrite().propose(context(task, step))) for step in range(200)]
        drawn[name] = Counter(draft.rationale.split(":")[0] for draft in drafts if draft is not None)["split_k"]
    assert drawn["gemm"] < 20 < 40 < drawn["gemm_deep"]
