"""Lookup of a `kind` in a config: a class of ours from a dict, or a user's own as `package.module:Class`."""

import importlib
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from evokernel.errors import ConfigError


def resolve(kind: str, known: Mapping[str, Any], what: str) -> Any:
    """Return the object that a kind names.

    Raises:
        ConfigError: the kind is neither known nor importable; the message lists the known ones.
    """
    if kind in known:
        return known[kind]
    module_name, separator, attribute = kind.partition(":")
    if not separator:
        near = get_close_matches(kind, list(known), n=1)
        names = f"one of {', '.join(known)}, or " if known else ""
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigError(f"unknown {what} {kind!r}: expected {names}package.module:Class{hint}")
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{what} {kind!r} cannot be imported: {error}") from None
