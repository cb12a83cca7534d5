"""The exhibits of the museum: kernels with a head that says what they are and what must become of them.

Heads are read as those of `evokernel.self_test` are. Fields of a cheat:

    title, task (a file in `tasks/`), class, tries, seen (who saw it first), verdict

and of an honest kernel `title` and `task`. A verdict is `STATUS at STAGE`, more of them with ` or ` between, in the
words of `evokernel.evaluation`. `hole: WHY` marks a cheat that worker mode cannot stop: its verdict is `ok`.
`gains: nothing over NAME` marks one whose results are right and that looks no faster than the honest
kernel NAME. `threads: N` lets it have N threads.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from evokernel.candidate import Candidate
from evokernel.config import EvaluationConfig
from evokernel.evaluate.compilers import local_language
from evokernel.evaluate.pool import LocalEvaluator
from evokernel.evaluation import Budget, Evaluation, Stage, Status
from evokernel.protocols import EvaluationRequest
from evokernel.self_test.exhibits import read_head

HERE = Path(__file__).parent
CHEATS, HONEST, TASKS = HERE / "cheats" / "cpp", HERE / "honest" / "cpp", HERE / "tasks"
SETTINGS = EvaluationConfig(quick_ms=30, precise_ms=60, final_ms=120, final_processes=1, timeout_s=3)


@dataclass(frozen=True, slots=True)
class Exhibit:
    """One kernel: its file, its head, its source."""

    path: Path
    head: Mapping[str, str]
    source: str

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def task(self) -> str:
        return str(TASKS / f"{self.head['task']}.py")

    @property
    def threads(self) -> int:
        return int(self.head.get("threads", 1))

    @property
    def verdicts(self) -> tuple[tuple[Status, Stage], ...]:
        """What may become of it."""
        pairs = (each.split(" at ") for each in self.head["verdict"].split(" or "))
        return tuple((Status(status.strip()), Stage(stage.strip())) for status, stage in pairs)


def read_exhibits(folder: Path) -> list[Exhibit]:
    """Return the exhibits of a wing in the order of their names."""
    return [_read(path) for path in sorted(folder.glob("*.cpp"))]


def _read(path: Path) -> Exhibit:
    source = path.read_text(encoding="utf-8")
    return Exhibit(path, read_head(source), source)


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
    evaluator = LocalEvaluator(task, language, settings=SETTINGS, threads=threads)

    async def judge(exhibit: Exhibit) -> tuple[str, Evaluation]:
        candidate, program = Candidate(exhibit.source, language.name), language.program_hash(exhibit.source)
        return exhibit.name, await evaluator.evaluate(EvaluationRequest(candidate, program, Budget.QUICK))

    try:
        return dict(await asyncio.gather(*map(judge, exhibits)))
    finally:
        await evaluator.close()
