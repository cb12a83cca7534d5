"""Judges exhibits in C++ by the real evaluator of this machine."""

import asyncio
from collections.abc import Iterable, Sequence

from evokernel.config.run import EvaluationConfig
from evokernel.evaluate.build.confined_compilers import local_language
from evokernel.evaluate.client.devices import StartJudge
from evokernel.evaluate.client.open_evaluator import open_evaluator
from evokernel.protocols import Evaluator
from evokernel.records.candidate import Candidate
from evokernel.records.evaluation import Evaluation, EvaluationRequest, Fidelity
from tests.museum.exhibits import Exhibit

SETTINGS = EvaluationConfig(
    quick_ms=30, precise_ms=60, final_ms=120, final_processes=1, timeout_s=3, compile_timeout_s=120
)


def judge_exhibits(exhibits: Iterable[Exhibit], *, start: StartJudge) -> dict[str, Evaluation]:
    """Judge exhibits by the real evaluator, whose judges a host starts that others share; by name."""
    wings: dict[tuple[str, int], list[Exhibit]] = {}
    for exhibit in exhibits:
        wings.setdefault((exhibit.task, exhibit.threads), []).append(exhibit)
    found: dict[str, Evaluation] = {}
    for (task, threads), members in wings.items():
        verdicts = judge_sources(task, [exhibit.source for exhibit in members], threads=threads, start=start)
        found |= zip((exhibit.name for exhibit in members), verdicts, strict=True)
    return found


def judge_sources(
    task: str, sources: Sequence[str], *, threads: int = 1, start: StartJudge | None = None
) -> list[Evaluation]:
    """Judge C++ sources for a task by the real evaluator, all of them by the same judge."""
    return asyncio.run(_judge(task, sources, threads=threads, start=start))


async def _judge(task: str, sources: Sequence[str], *, threads: int, start: StartJudge | None) -> list[Evaluation]:
    language = local_language("cpp", SETTINGS, threads=threads)

    async def judge(evaluator: Evaluator, source: str) -> Evaluation:
        candidate = Candidate(source, language.name)
        return await evaluator.evaluate(EvaluationRequest(candidate, language.program_hash(source), Fidelity.QUICK))

    async with open_evaluator(task, language, settings=SETTINGS, threads=threads, start=start) as evaluator:
        return await asyncio.gather(*(judge(evaluator, source) for source in sources))
