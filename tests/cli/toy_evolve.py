"""A process that evolves a toy as `evokernel evolve` does: `toy_evolve.py STORE SECONDS_EACH [EVALUATIONS]`."""

import asyncio
import sys
from pathlib import Path

from archive.store import Store
from evokernel.cli.display.live import make_view
from evokernel.cli.display.snapshot import SnapshotTaker
from evokernel.cli.display.text import stdout
from evokernel.cli.evolve import how_to_go_on, show_end
from evokernel.cli.group import Refused
from evokernel.cli.session import SessionEnd, discard_stdout, run_session
from evokernel.errors import EvokernelError
from evokernel.records.evaluation import Evaluation, EvaluationRequest
from evokernel.report.best import find_best
from evokernel.report.status import run_facts
from tests.support.engine import toy_config, toy_search
from tests.support.fakes import TOY, WIDE_TOY, InstantEvaluator

FEW = 12
"""As many as a toy without an extra argument evaluates."""


class SlowEvaluator(InstantEvaluator):
    """Takes its time for everything but the seed."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        if request.candidate.source not in (TOY, WIDE_TOY):
            await asyncio.sleep(self._seconds)
        return await super().evaluate(request)


async def evolve(path: Path, seconds: float, evaluations: int) -> SessionEnd:
    config, view = toy_config(budget={"evaluations": evaluations}), make_view(stdout(), title="toy")
    source = TOY if evaluations <= FEW else WIDE_TOY
    with Store.open(path, write=True) as store:
        engine = toy_search(store, config, SlowEvaluator(seconds), source=source, heard=view)
        watch = SnapshotTaker(engine, store)
        with view:
            ended = await run_session(engine, view, watch.snapshot)
        best, run = find_best(store), run_facts(store)
    if ended.hung_up:
        discard_stdout()
    else:
        show_end(best, run, summary=ended.reason, go_on=how_to_go_on(config, ended))
    return ended


def main(path: str, seconds: str, evaluations: str = str(FEW)) -> int:
    try:
        return asyncio.run(evolve(Path(path), float(seconds), int(evaluations))).exit_code
    except EvokernelError as error:
        refused = Refused(str(error))
        refused.show()
        return refused.exit_code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
