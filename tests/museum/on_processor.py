"""Judges exhibits in C++ by the real evaluator of this machine."""

import asyncio
from collections.abc import Iterable

from evokernel.config.run import EvaluationConfig
from evokernel.evaluate.build.confined_compilers import local_language
from evokernel.evaluate.client.open_evaluator import open_evaluator
from evokernel.protocols import Evaluator
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Evaluation, EvaluationRequest, Fidelity
from tests.museum.exhibits import Exhibit

SETTINGS = EvaluationConfig(quick_ms=30, precise_ms=60, final_ms=120, final_processes=1, timeout_s=3)


def judge_exhibits(exhibits: Iterable[Exhibit]) -> dict[str, Evaluation]:
    """Judge exhibits by the real evaluator; by name."""
    wings: dict[tuple[str, int], list[Exhibit]] = {}
    for exhibit in exhibits:
        wings.setdefault((exhibit.task, exhibit.threads), []).append(exhibit)
    found: dict[str, Evaluation] = {}
    for (task, threads), members in wings.items():
        found |= asyncio.run(_judge(task, members, threads=threads))
    return found


async def _judge(task: str, exhibits: Iterable[Exhibit], *, threads: int) -> dict[str, Evaluation]:
    language = local_language("cpp", SETTINGS, threads=threads)

    async def judge(evaluator: Evaluator, exhibit: Exhibit) -> tuple[str, Evaluation]:
        candidate, program = Candidate(exhibit.source, language.name), language.program_hash(exhibit.source)
        return exhibit.name, await evaluator.evaluate(EvaluationRequest(candidate, program, Fidelity.QUICK))

    async with open_evaluator(task, language, settings=SETTINGS, threads=threads) as evaluator:
        return dict(await asyncio.gather(*(judge(evaluator, exhibit) for exhibit in exhibits)))
