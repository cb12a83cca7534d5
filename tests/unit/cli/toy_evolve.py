"""A process that evolves a toy as `evokernel evolve` does: `toy_evolve.py STORE SECONDS_PER_EVALUATION`."""

import asyncio
import sys
from pathlib import Path

from archive.store import Store
from evokernel.budget import stopper_from
from evokernel.cli.evolve import show_end
from evokernel.cli.live import make_view
from evokernel.cli.session import Ended, let_go_of_stdout, run_session
from evokernel.cli.snapshot import Watch
from evokernel.cli.text import stdout
from evokernel.evaluation import Evaluation
from evokernel.protocols import EvaluationRequest
from evokernel.report.best import find_best
from evokernel.report.status import run_facts
from tests.engine import toy_config, toy_search
from tests.fakes import TOY, InstantEvaluator


class SlowEvaluator(InstantEvaluator):
    """Takes its time for everything but the seed."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    async def evaluate(self, request: EvaluationRequest) -> Evaluation:
        if request.candidate.source != TOY:
            await asyncio.sleep(self._seconds)
        return await super().evaluate(request)


async def evolve(path: Path, seconds: float) -> Ended:
    config, view = toy_config(), make_view(stdout(), title="toy")
    with Store.open(path, write=True) as store:
        engine = toy_search(store, config, SlowEvaluator(seconds), heard=view)
        watch = Watch(engine, store, stopper_from(config.budget))
        with view:
            ended = await run_session(engine, view, watch.snapshot)
        best, run = find_best(store), run_facts(store)
    if ended.hung_up:
        let_go_of_stdout()
    else:
        show_end(best, run, summary=ended.reason, interrupted=bool(ended.signal))
    return ended


if __name__ == "__main__":
    sys.exit(asyncio.run(evolve(Path(sys.argv[1]), float(sys.argv[2]))).exit_code)
