"""Searches on the toy engine whose operators are real templates, answered by a script."""

import asyncio
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from archive.store import Store
from evokernel.config.run import RunConfig
from evokernel.engine.assemble import make_operators
from evokernel.engine.search import Search
from evokernel.protocols import Language
from evokernel.testing.scripted import Script, ScriptedTransport
from tests.support.engine import replayed, toy_search
from tests.support.fakes import InstantEvaluator
from tests.support.model_search import config_of


def kernel(speed: int, words: str = "") -> str:
    """A reply with a kernel of a speed; 0 is wrong."""
    return f"IDEA: {words or speed}\nPREDICTED: 1.2x\n\n```cpp\n{source(speed, words)}```\n"


def source(speed: int, words: str = "") -> str:
    return (
        f"// {words}\n#include <cstdint>\nconstexpr int SPEED = {speed};\n"
        'extern "C" void run(const float* x, int64_t N, float* y) { y[0] = x[0] * SPEED; }\n'
    )


def speed_of(text: str) -> float | None:
    found = re.search(r"SPEED = (\d+)", text)
    number = int(found[1]) if found else 0
    return math.exp(number / 10 - 3) if number else None


def run_templates(
    path: Path, script: Script, shares: Mapping[str, float], *, language: Language | None = None, **changes: Any
) -> Search:
    """Search from a kernel of speed 10, one step after the other."""
    config = RunConfig.model_validate(config_of(shares, in_flight=1, **changes).model_dump()).on("cpu")
    with Store.open(path, write=True) as store:
        model = ScriptedTransport(script, log=store.calls)
        search = toy_search(
            *(store, config, InstantEvaluator(speed_of)),
            source=source(10),
            operators=make_operators(config, model=model),
            model=model,
            language=language,
        )
        asyncio.run(search.run())
    return search


def same_state(path: Path, search: Search) -> bool:
    """Say whether the store alone gives the state that the search ended in."""
    return replayed(path, search.config).fingerprint() == search.state.fingerprint()
