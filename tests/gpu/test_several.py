"""Two GPUs and more: every one judges, one build fits all, and a winner is measured on several at a time."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from evokernel.config.run import EvaluationConfig
from evokernel.evaluate.build.confined_compilers import local_language
from evokernel.evaluate.client.judge_process import JudgeClient, JudgeHostClient
from evokernel.evaluate.client.open_evaluator import open_evaluator
from evokernel.evaluate.device.nvml import alike, visible_gpus
from evokernel.protocols import Evaluator
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Evaluation, EvaluationRequest, Fidelity
from evokernel.records.timing import combined_speedup

TASK = str(Path(__file__).parent / "scale_task.py")
SOURCE = """\
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < N
    tl.store(y + i, 2 * tl.load(x + i, mask=mask) + 1, mask=mask)


def run(x, R, C, y):
    kernel[(triton.cdiv(R * C, {block}),)](x, y, R * C, {block}, num_warps={warps})
"""

pytestmark = pytest.mark.skipif(len(alike(visible_gpus())) < 2, reason="needs two GPUs of one model")


def test_two_gpus_judge_at_the_same_time_and_say_the_same() -> None:
    settings = EvaluationConfig(quick_ms=20, timeout_s=5, gpus=2).on("cuda")
    language = local_language("triton", settings)
    seen: list[str] = []

    class Seeing(JudgeHostClient):
        async def launch(self, *, limit_s: float = 900.0, environment: Mapping[str, str] | None = None) -> JudgeClient:
            seen.append((environment or {})["CUDA_VISIBLE_DEVICES"])
            return await super().launch(limit_s=limit_s, environment=environment)

    async def story() -> tuple[list[Evaluation], Evaluation]:
        async def judge(evaluator: Evaluator, block: int, warps: int, budget: Fidelity) -> Evaluation:
            source = SOURCE.format(block=block, warps=warps)
            program = language.program_hash(source)
            return await evaluator.evaluate(EvaluationRequest(Candidate(source, "triton"), program, budget))

        async with open_evaluator(TASK, language, settings=settings, start=host) as evaluator:
            shapes = [(block, warps) for block in (256, 512, 1024, 2048) for warps in (2, 4, 8)]
            found = await asyncio.gather(*(judge(evaluator, *shape, Fidelity.QUICK) for shape in shapes))
            return found, await judge(evaluator, 1024, 4, Fidelity.FINAL)

    with Seeing("cuda") as host:
        found, final = asyncio.run(story())
    assert [evaluation.feedback for evaluation in found if not evaluation.ok] == []
    assert len({evaluation.key.device for evaluation in found}) == 1
    assert len(set(seen)) == 2
    assert len(seen) == 2 + settings.final_processes
    assert final.ok, final.feedback
    (same,) = (e for e in found if e.artifact_hash == final.artifact_hash)
    assert combined_speedup(same.timings).value == pytest.approx(combined_speedup(final.timings).value, rel=0.1)
