"""Searches on the toy engine whose operators ask a scripted model."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from archive.store import Store
from evokernel.engine.model_gate import ModelMissing
from evokernel.engine.search import Search
from evokernel.protocols import LanguageModel, Operator
from evokernel.records.llm import ModelRequest
from evokernel.testing.scripted import Script, ScriptedTransport
from tests.support.engine import Heard, replayed, toy_config, toy_search
from tests.support.fakes import TOY, InstantEvaluator
from tests.support.model_operators import ToyModelOperator

Make = Callable[[LanguageModel], Mapping[str, Operator]]


def mutate(model: LanguageModel) -> dict[str, Operator]:
    return {"mutate": ToyModelOperator("mutate", model)}


def config_of(names: Mapping[str, float], **changes: Any):
    return toy_config(**{"islands": [{"name": "one", "operators": names}], **changes})


def run(
    path: Path,
    script: Script | None,
    make: Make = mutate,
    *,
    heard: Heard | None = None,
    rules: tuple[str, ...] = (),
    source: str = TOY,
    handed_in_only: bool = False,
    **changes: Any,
) -> tuple[str, Search, Mapping[str, Operator]]:
    with Store.open(path, write=True) as store:
        model = ScriptedTransport(script, log=store.calls) if script else None
        operators = make(model or ModelMissing(store.calls))
        config = config_of({**dict.fromkeys(operators, 1.0), **dict.fromkeys(rules, 1.0)}, **changes)
        search = toy_search(
            *(store, config, InstantEvaluator()),
            source=source,
            heard=heard,
            operators=operators,
            model=model,
            handed_in_only=handed_in_only,
        )
        return asyncio.run(search.run()), search, operators


def upwards(request: ModelRequest) -> str:
    """Answer with another point each time."""
    step = request.origin.step
    return f"A={(1, 2, 4, 8)[step % 4]} B={1 + step % 6}"


def facts(path: Path, kind: type) -> list[Any]:
    with Store.open(path, write=False) as store:
        return [fact for fact in store.facts() if isinstance(fact, kind)]


def same_after_replay(path: Path, search: Search, operators: Mapping[str, Operator], **changes: Any) -> bool:
    config = config_of(dict.fromkeys(operators, 1.0), **changes)
    return replayed(path, config, operators).fingerprint() == search.state.fingerprint()
