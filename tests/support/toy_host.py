"""An opening of a judge that does not build, which hosts of a cluster import under this name; they die when told to."""

import asyncio
import json
import os
import signal
import threading
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Self

from evokernel.evaluate.client.judge_setup import JoinedRun
from evokernel.protocols import Evaluator
from evokernel.records.evaluation import Evaluation, EvaluationRequest
from tests.support.fakes import InstantEvaluator


@dataclass(frozen=True)
class Death:
    """The end of the host that takes up the next candidate."""

    node: bool = False
    """Its node dies, and it has to notice that; else it dies alone."""
    after_s: float = 0.0
    """Time from the beginning of the candidate, in s."""


@dataclass(frozen=True)
class ToyOpening:
    """Its hosts write `host.PID` into the folder, and take deaths from there."""

    folder: Path
    judge: Evaluator = field(default_factory=InstantEvaluator)
    """Answers at once."""
    seconds: float = 0.0
    """Time of one candidate, in s."""
    slots: int = 4
    """Candidates that a host judges side by side."""
    joins: JoinedRun | None = None

    def joining(self, run: JoinedRun) -> Self:
        return replace(self, joins=run)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[tuple[Evaluator, JoinedRun]]:
        (self.folder / f"host.{os.getpid()}").touch()
        yield MortalJudge(self), self.joins or JoinedRun(self.judge.identity, (), ())


class MortalJudge:
    """Judges as another does, and slower; takes deaths from a folder."""

    def __init__(self, opening: ToyOpening) -> None:
        self.identity = opening.judge.identity
        self._opening = opening
        self._free = asyncio.Semaphore(opening.slots)

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        async with self._free:
            self._take_a_death()
            await asyncio.sleep(self._opening.seconds)
            return await self._opening.judge.evaluate(request)

    def _take_a_death(self) -> None:
        for path in self._opening.folder.glob("death.*"):
            taken = path.with_name(f"taken.{path.name}.{os.getpid()}")
            with suppress(FileNotFoundError):  # another host has it
                path.rename(taken)
                death = Death(**json.loads(taken.read_text()))
                victim = os.getppid() if death.node else os.getpid()  # the parent is Ray's daemon of the node
                if death.after_s:
                    threading.Timer(death.after_s, os.kill, (victim, signal.SIGKILL)).start()
                else:
                    os.kill(victim, signal.SIGKILL)
                return


def send_deaths(folder: Path, deaths: Iterable[Death]) -> None:
    """Put deaths where the next candidates find them, each whole from the start."""
    for number, death in enumerate(deaths, start=len(list(folder.glob("taken.*")))):
        written = folder / f"written.{number}"
        written.write_text(json.dumps(asdict(death)))
        written.rename(folder / f"death.{number}")
