"""A toy run with an operator that asks a model, for the commands that write its prompts and take answers in."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from archive.store import Store
from evokernel.config.run import RunConfig
from evokernel.engine.assemble import make_operators
from evokernel.engine.model_gate import ModelMissing
from tests.support.engine import Heard, toy_config, toy_search
from tests.support.fakes import TOY, InstantEvaluator

TASK = Path(__file__).parents[1] / "e2e" / "small_task.py"
ISLANDS = [
    {"name": "one", "operators": {"mutate": 1.0, "tune": 1.0}},
    {"name": "two", "operators": {"tune": 1.0, "repair": 1.0}},
]
SEED = TOY.replace("run()", "run(const float* x, long N, float* y)")
FASTER = """IDEA: eight at once
PREDICTED: 1.5x

<<<<<<< SEARCH
constexpr int A = {before};  // tune: 1 2 4 8 16
=======
constexpr int A = 8;  // tune: 1 2 4 8 16
constexpr int C = {extra};
>>>>>>> REPLACE
"""


def asking_config(**changes: Any) -> RunConfig:
    """Return a toy config whose task can be loaded, with the built-in operators that ask a model."""
    return toy_config(**{"task": str(TASK), "islands": ISLANDS, "budget": {"evaluations": 1}, **changes})


def engage(path: Path, config: RunConfig, *, handed_in_only: bool = False) -> Heard:
    """Run a toy engine on a store to its end, as an assembled one without models would; return what it said."""
    heard = Heard()
    with Store.open(path, write=True) as store:
        operators: Mapping[str, Any] = make_operators(config, model=ModelMissing(store.calls))
        search = toy_search(
            store,
            config,
            InstantEvaluator(),
            source=SEED,
            heard=heard,
            operators=operators,
            handed_in_only=handed_in_only,
        )
        asyncio.run(search.run())
    return heard
