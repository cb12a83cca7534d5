"""What a kernel might keep on the device, do ahead, or spoil for others, to look faster: none of it gains anything."""

import asyncio
from pathlib import Path

import pytest

from evokernel.config.run import EvaluationConfig
from evokernel.evaluate.build.confined_compilers import local_language
from evokernel.evaluate.client.open_evaluator import open_evaluator
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Evaluation, EvaluationRequest, Fidelity, Mode

TASK = str(Path(__file__).parent / "scale_task.py")
MODULE = '''\
import torch
from evokernel.cuda import Module

kernels = Module(r"""
{before}
extern "C" __global__ void scale(const float* x, float* y, float* spare, long long n) {{
    const long long i = blockIdx.x * 256ll + threadIdx.x;
    {body}
}}
""")


def run(x, R, C, y):
    spare = torch.empty({spare}, device=x.device)
    kernels.scale[(R * C + 255) // 256, 256](x, y, spare, R * C)
'''
WORK = "if (i < n) y[i] = 2 * x[i] + 1;"
HONEST = MODULE.format(before="", body=WORK, spare=1)
SPOILER = MODULE.format(
    before="",
    body=WORK + "\n    for (long long j = i; j < (64ll << 20); j += gridDim.x * 256ll) spare[j] = j;",
    spare=64 << 20,
)
CHEATS = {
    # works for the first calls of a module's life only
    "counter": MODULE.format(
        before="__device__ unsigned calls;",
        body="const bool early = *(volatile unsigned*)&calls < 12;\n    if (early) {"
        + WORK
        + "}\n    if (i == 0) ++calls;",
        spare=1,
    ),
    # the same, in memory that is called scratch
    "counter in scratch": MODULE.format(
        before="",
        body="const bool late = *(volatile unsigned*)spare == 7;\n    if (!late) {"
        + WORK
        + "}\n    if (i == 0) *(unsigned*)spare = 7;",
        spare=1,
    ),
}


@pytest.fixture(scope="module")
def judged() -> dict[str, Evaluation]:
    return asyncio.run(_judge({"honest": HONEST, "spoiler": SPOILER, **CHEATS, "honest again": HONEST + "\n\nX = 1\n"}))


async def _judge(sources: dict[str, str]) -> dict[str, Evaluation]:
    settings = EvaluationConfig(timeout_s=5, gpus=1).on("cuda")
    language = local_language("cuda", settings)
    async with open_evaluator(TASK, language, settings=settings) as evaluator:
        found = {}
        for name, source in sources.items():
            request = EvaluationRequest(Candidate(source, "cuda"), language.program_hash(source), Fidelity.PRECISE)
            found[name] = await evaluator.evaluate(request)
        return found


@pytest.mark.parametrize("name", ["honest", "honest again", "spoiler"])
def test_what_is_right_is_measured(name: str, judged: dict[str, Evaluation]) -> None:
    assert judged[name].ok, judged[name].feedback
    assert judged[name].key.mode is Mode.ARTIFACT


@pytest.mark.parametrize("name", CHEATS)
def test_what_remembers_its_calls_is_found(name: str, judged: dict[str, Evaluation]) -> None:
    assert not judged[name].ok


def test_spoiling_the_cache_spoils_nothing_for_the_baseline(judged: dict[str, Evaluation]) -> None:
    plain, spoiled = judged["honest"].timings[0], judged["spoiler"].timings[0]
    assert spoiled.baseline_us == pytest.approx(plain.baseline_us, rel=0.02)
    assert spoiled.candidate_us > 2 * plain.candidate_us
