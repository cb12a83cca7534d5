"""Who sends elites to whom, as a config says it: a name, lists of islands, or a function of the user's own."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator


def _in_a_form(raw: Any) -> Any:
    """Refuse what is neither a name nor lists of names, in words rather than once for each form there is."""
    if isinstance(raw, str):
        return raw
    lists = raw.values() if isinstance(raw, Mapping) else [None]
    if not all(isinstance(each, list | tuple) and all(isinstance(name, str) for name in each) for each in lists):
        raise ValueError(
            "expected ring, star, full, package.module:function, or lists of islands by the name of the island that "
            f"sends to them, for example {{one: [two]}}; given {raw!r}"
        )
    return raw


Topology = Annotated[str | Mapping[str, tuple[str, ...]], BeforeValidator(_in_a_form)]


def wrong_routes(routes: Mapping[str, Sequence[str]], names: Sequence[str]) -> list[str]:
    """Return what is wrong with who sends to whom, one line each; islands that nobody reaches are not."""
    named = dict.fromkeys([*routes, *(target for targets in routes.values() for target in targets)])
    unknown = [f"{name!r} is no island; there are {', '.join(names)}" for name in named if name not in names]
    to_itself = [name for name in routes if name in routes[name]]
    return unknown + [f"{name} cannot send to itself: its elites are there already" for name in to_itself]
