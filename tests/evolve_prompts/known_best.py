"""An endpoint whose best prompt is known: each sentence in a prompt is worth something on each task.

As a program, `known_best.py FOLDER URL ROUNDS` evolves `mutate` on stores in a folder, to be killed at any instant.
"""

import asyncio
import itertools
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from archive.store import Store
from evokernel.config.run import BudgetConfig, RunConfig
from evokernel.engine.assemble import make_operators
from evokernel.engine.search import Search
from evokernel.evolve_prompts.records import PromptTask
from evokernel.evolve_prompts.search import PromptDecision, PromptSearch, PromptSettings
from evokernel.evolve_prompts.store import PromptStore
from evokernel.llm.assemble import make_models
from evokernel.report.best import candidate_id
from operators.llm.templates import load_templates
from tests.llm.endpoint import Handler, says
from tests.support.engine import toy_config, toy_search
from tests.support.fakes import InstantEvaluator
from tests.support.template_search import kernel, source, speed_of

TEMPLATE = load_templates()["mutate"]
TASKS = {"alpha": False, "beta": False, "gamma": True}
"""Names of the tasks; True for the held-out one."""
ASKS = 2
START = 10
Worth = Mapping[str, Mapping[str, int]]
ROWS, CLOCK, NOTHING = "Count the rows.", "Read the clock twice.", "Be brave."
TRUE_WORTH: Worth = {
    NOTHING: {"alpha": 0, "beta": 0, "gamma": 0},
    ROWS: {"alpha": 3, "beta": 0, "gamma": 3},
    CLOCK: {"alpha": 1, "beta": 2, "gamma": 2},
}
"""The best prompt has the second and the third sentence."""
OVERFIT: Worth = {ROWS: {"alpha": 4, "beta": 4, "gamma": -6}}
PRICE = {"prompt_usd_per_mtok": 1000, "completion_usd_per_mtok": 2000}
CALL_USD = (10 * 1000 + 5 * 2000) / 1e6
"""The price of one call of the endpoint."""
SHOWN = re.compile(r"// task (\w+)")


class KnownBest:
    """Answers asks by the worth of the sentences in the prompt, and reflections with one sentence after another."""

    def __init__(self, worth: Worth, edits: Sequence[str] = ()) -> None:
        self.worth, self.reflections = worth, list[str]()
        self._edits, self._count = itertools.cycle(edits or [edit_adding(each) for each in worth]), itertools.count()

    def __call__(self, handler: Handler) -> None:
        text = "\n".join(message["content"] for message in handler.asked["messages"])
        if "You improve the prompt" in text:
            self.reflections.append(text)
            says(next(self._edits))(handler)
            return
        found = SHOWN.search(text)
        assert found is not None, text
        gain = sum(each[found[1]] for sentence, each in self.worth.items() if sentence in text)
        says(kernel(START + gain, words=f"task {found[1]}, try {next(self._count)}"))(handler)


def edit_adding(sentence: str) -> str:
    return (
        f"IDEA: say {sentence}\n\n<<<<<<< SEARCH\n## What to do\n=======\n## What to do\n\n{sentence}\n>>>>>>> REPLACE"
    )


def config_of(url: str, seed: int = 0) -> RunConfig:
    model = {"name": "stub", "model": "hosted_vllm/stub", "api_base": url, "price": PRICE, "max_tokens": 600}
    return toy_config(models=[model], seed=seed, islands=[{"name": "one", "operators": {"mutate": 1.0}}])


def fill(folder: Path) -> None:
    """Write a run with one judged kernel for each task."""
    for name in TASKS:
        config = toy_config(budget={"evaluations": 1}, islands=[{"name": "one", "operators": {"tune": 1.0}}])
        with Store.open(folder / f"{name}.db", write=True) as store:
            search = toy_search(store, config, InstantEvaluator(speed_of), source=source(START, f"task {name}"))
            asyncio.run(search.run())


def make_search(config: RunConfig, store: Store) -> Search:
    """Return a session of a trial on the toy engine, whose operator asks through litellm."""
    model = make_models(config, log=store.calls, notify=lambda text: None)
    config = config.model_copy(update={"budget": BudgetConfig(evaluations=1000)})
    operators = make_operators(config, model=model)
    evaluator = InstantEvaluator(speed_of)
    search = toy_search(store, config, evaluator, source="", operators=operators, model=model)
    search.finals = False
    return search


def settings_of(folder: Path, url: str, **changes: Any) -> PromptSettings:
    tasks = []
    for name, held_out in TASKS.items():
        with Store.open(folder / f"{name}.db", write=False) as store:
            tasks.append(PromptTask(name, str(folder / f"{name}.db"), candidate_id(store, "best"), held_out))
    known: dict[str, Any] = {
        "original": TEMPLATE.settings,
        "text": TEMPLATE.file.read_text(encoding="utf-8"),
        "parts": {},
        "tasks": tuple(tasks),
        "configs": {name: config_of(url) for name in TASKS},
        "asks": ASKS,
        "rounds": 6,
    }
    return PromptSettings(**known | changes)


def evolve(folder: Path, settings: PromptSettings, lines: list[str] | None = None) -> PromptDecision:
    """Run one session of an evolution."""
    with Store.open(folder / "prompts.db", write=True) as opened:
        store = PromptStore(opened, {"operator": "mutate", "kernels": {}})
        say = (lines if lines is not None else list[str]()).append
        return asyncio.run(PromptSearch(store, settings, say=say, make_search=make_search).run())


def state_of(folder: Path) -> dict[str, Any]:
    """Return what an evolution has found, without what depends on times and places."""
    with Store.open(folder / "prompts.db", write=False) as opened:
        texts = [tuple(row) for row in opened.database.rows("SELECT * FROM prompt_texts ORDER BY number")]
        gains = [
            (row["prompt"], row["task"], round(row["gain"], 9), row["asks"])
            for row in opened.database.rows("SELECT * FROM prompt_trials ORDER BY prompt, task")
        ]
        return {"texts": texts, "gains": gains, "decision": opened.meta("prompt_decision")}


if __name__ == "__main__":
    ended = evolve(Path(sys.argv[1]), settings_of(Path(sys.argv[1]), sys.argv[2], rounds=int(sys.argv[3])))
    print(json.dumps(ended.reason))
