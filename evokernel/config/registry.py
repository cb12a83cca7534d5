"""Lookup of a `kind` in a config: a class of ours from a dict, or a user's own as `package.module:Class`."""

import importlib
import sys
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from evokernel.errors import ConfigError

MEMBERS: Mapping[str, tuple[str, ...]] = {
    "operator": ("parents", "propose"),
    "selector": ("select",),
    "chooser": ("order",),
    "stopper": ("reason", "remaining"),
}
"""Attributes without which a plug-in cannot be used, by what a config names it for."""
_folders: list[str] = []


def look_in(folder: Path) -> None:
    """Let plug-ins be found in a folder too, behind Python's own path."""
    if str(folder) not in _folders:
        _folders.append(str(folder))


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
    sys.path += [folder for folder in _folders if folder not in sys.path]  # a plug-in may import its neighbours late
    importlib.invalidate_caches()
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except ModuleNotFoundError as error:
        places = ", ".join([*_folders, "Python's path (PYTHONPATH)"])
        raise ConfigError(f"{what} {kind!r} cannot be imported: {error}; looked in {places}") from None
    except Exception as error:  # a user's module may raise anything; it becomes one clear message
        said = str(error) if isinstance(error, ImportError | AttributeError) else f"{type(error).__name__}: {error}"
        raise ConfigError(f"{what} {kind!r} cannot be imported: {said}") from error


def make(kind: str, known: Mapping[str, Any], what: str, *arguments: Any, **options: Any) -> Any:
    """Call what a kind names, and return the object.

    Raises:
        ConfigError: as `resolve` does; or a class of the user's own raises, or its object lacks `MEMBERS`.
    """
    maker = resolve(kind, known, what)
    if kind in known:
        return maker(*arguments, **options)
    try:
        made = maker(*arguments, **options)
    except Exception as error:  # as above
        raise ConfigError(f"{what} {kind!r} cannot be made: {type(error).__name__}: {error}") from error
    require(made, MEMBERS.get(what, ()), kind, what)
    return made


def require(made: object, members: tuple[str, ...], kind: str, what: str) -> None:
    """Raise `ConfigError` where a plug-in lacks some of the members."""
    if lacking := [name for name in members if not hasattr(made, name)]:
        raise ConfigError(f"{what} {kind!r} is no {what}: it lacks {', '.join(lacking)}; docs/plugins.md has examples")
