"""A search on a small store with one operator, for the figures of `benchmarks/house.py`."""

from pathlib import Path

from archive.store import Store
from evokernel.config.run import RunConfig
from evokernel.engine.assemble import make_archipelago, make_operators
from evokernel.engine.search import Search
from evokernel.engine.search_run import Parts
from evokernel.engine.stoppers import stopper_from
from evokernel.languages import make_language
from evokernel.languages.toolchain import run_plain
from evokernel.protocols import Listener
from evokernel.records.candidate import Candidate
from evokernel.tasks import load_task
from evokernel.testing.scripted import ScriptedTransport
from tests.operators.llm.test_every_template import reply, source, speed_of
from tests.support.fakes import InstantEvaluator

TUNABLE = "constexpr int U = 2;  // tune: 1 2 3 4 6 8\n"


async def search_with(operator: str, path: Path, listener: Listener) -> None:
    """Search with one operator until six candidates are judged."""
    raw = {
        "task": "gemm",
        "device": "cpu",
        "budget": {"evaluations": 6},
        "islands": [{"name": "north", "operators": {operator: 1.0}}],
        "in_flight": 1,
    }
    config = RunConfig.model_validate(raw).on("cpu")
    with Store.open(path, write=True) as store:
        model = ScriptedTransport(reply, log=store.calls)
        parts = Parts(
            task=load_task("gemm").on("cpu"),
            language=make_language("cpp", run=run_plain),
            store=store,
            archipelago=make_archipelago(config, make_operators(config, model=model)),
            evaluator=InstantEvaluator(speed_of),
            stopper=stopper_from(config.budget),
            listeners=[listener],
            model=model,
            asking_at_once=1,
        )
        seed = Candidate(source(1, extra=TUNABLE), "cpp")
        await Search(parts, config=config, seeds=[seed], in_flight=1).run()
