"""An opening of the instant evaluator, which hosts of a test's cluster import under this name."""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from evokernel.evaluate.client.judge_setup import JoinedRun
from evokernel.protocols import Evaluator
from evokernel.records.evaluation import EvaluationRequest
from tests.support.fakes import InstantEvaluator


@dataclass(frozen=True)
class ToyOpening:
    """Its host is killed while it judges a candidate of every `of` ones, and again until it has died `times` for it."""

    folder: Path
    of: int
    times: int
    joins: JoinedRun | None = None

    def joining(self, run: JoinedRun) -> Self:
        return replace(self, joins=run)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[tuple[Evaluator, JoinedRun]]:
        evaluator = InstantEvaluator(fails=self._die)
        yield evaluator, self.joins or JoinedRun(evaluator.identity, (), ())

    def _die(self, request: EvaluationRequest) -> None:
        name = request.candidate.id
        if int(name, 16) % self.of == 0 and len(list(self.folder.glob(f"{name}.*"))) < self.times:
            (self.folder / f"{name}.{os.getpid()}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
