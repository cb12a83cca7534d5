"""Hidden checks that a run adds, on a GPU: a kernel that is wrong at a size of theirs is right until there is one."""

import asyncio
from dataclasses import replace

import pytest

from evokernel.config.run import EvaluationConfig
from evokernel.evaluate.build.confined_compilers import local_language
from evokernel.evaluate.client.open_evaluator import open_evaluator
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Evaluation, EvaluationRequest, Fidelity, Mode, Stage, Status
from evokernel.records.hidden_check import HiddenCheck
from tests.gpu.test_judge import MODULE, RIGHT, TASK, in_a_worker

SIZES = {"R": 37, "C": 211}
CHECKS = (HiddenCheck({"R": 5, "C": 9}), HiddenCheck(SIZES, {"x": ("normal", "ties")}, "its last element"))
WRONG = {
    "in the kernel": MODULE.format(body=RIGHT.replace("+ 1,", "+ 1 + (N == 7807) * 0.5,"), host="pass"),
    "in its host code": MODULE.format(body=RIGHT, host="R -= (R, C) == (37, 211)"),
}


@pytest.mark.parametrize("mode", [Mode.ARTIFACT, Mode.WORKER])
def test_a_kernel_that_is_wrong_at_a_size_is_refused_once_that_is_checked(mode: Mode) -> None:
    asyncio.run(_compare(mode))


async def _compare(mode: Mode) -> None:
    settings = EvaluationConfig(quick_ms=20, timeout_s=5, gpus=1).on("cuda")
    language = local_language("triton", settings)
    async with open_evaluator(TASK, language, settings=settings) as evaluator:

        async def judged(source: str, *checks: HiddenCheck) -> tuple[Evaluation, Evaluation | None]:
            source = source if mode is Mode.ARTIFACT else in_a_worker(source)
            request = EvaluationRequest(Candidate(source, "triton"), language.program_hash(source), Fidelity.QUICK)
            request = replace(request, checks=checks)
            found = await evaluator.evaluate(request)
            return found, await evaluator.recheck(request) if checks else None

        assert [await evaluator.admit(check) for check in CHECKS] == ["", ""]
        assert "R" in await evaluator.admit(HiddenCheck({"R": 99, "C": 9}))
        right, again = await judged(MODULE.format(body=RIGHT, host="pass"), *CHECKS)
        assert right.ok, right.feedback
        assert right.key.mode is mode
        assert "; hidden checks " in right.key.environment
        assert again is None
        for place, source in WRONG.items():
            before, _ = await judged(source)
            assert before.ok, f"{place}: {before.feedback}"
            assert (await judged(source, CHECKS[0]))[0].ok, place
            after, rechecked = await judged(source, *CHECKS)
            assert after.stage is Stage.CORRECTNESS, f"{place}: {after.status} {after.feedback}"
            assert after.status in (Status.NUMERICAL, Status.UNWRITTEN_OUTPUT), f"{place}: {after.feedback}"
            assert "37" not in after.feedback, "feedback does not reveal a hidden shape"
            assert rechecked is not None, place
            assert rechecked.status is after.status, place
