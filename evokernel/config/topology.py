"""Routes of elites between islands in a config: a name, lists of islands, or a function of the user's own."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator


def _name_or_lists(raw: Any) -> Any:
    """Refuse what is neither a name nor lists of names, with one message rather than one for each form."""
    if isinstance(raw, str):
        return raw
    lists = raw.values() if isinstance(raw, Mapping) else [None]
    if not all(isinstance(each, list | tuple) and all(isinstance(name, str) for name in each) for each in lists):
        raise ValueError(
            "expected ring, star, full, package.module:function, or lists of islands by the name of the island that "
            f"sends to them, for example {{one: [two]}}; given {raw!r}"
        )
    return raw


Topology = Annotated[str | Mapping[str, tuple[str, ...]], BeforeValidator(_name_or_lists)]


def wrong_routes(routes: Mapping[str, Sequence[str]], names: Sequence[str]) -> list[str]:
    """Return the problems of routes, one line each; an island without a sender is none."""
    named = dict.fromkeys([*routes, *(target for targets in routes.values() for target in targets)])
    unknown = [f"{name!r} is not an island; there are {', '.join(names)}" for name in named if name not in names]
    to_itself = [name for name in routes if name in routes[name]]
    return unknown + [f"{name} cannot send to itself: its elites are there already" for name in to_itself]
