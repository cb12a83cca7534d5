"""Lookup of a `kind` in a config: a class of ours from a dict, or a user's own as `package.module:Class`."""

import importlib
import os
import sys
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from evokernel.errors import ConfigError

MEMBERS: Mapping[str, tuple[str, ...]] = {
    "operator": ("parents", "propose"),
    "selector": ("select",),
    "chooser": ("order",),
    "stopper": ("reason", "remaining"),
}
"""Attributes without which a plug-in cannot be used, by what a config names it for."""


class _PluginFolder:
    """The folder of the config that was read last, behind Python's own path, and the modules that came from it."""

    def __init__(self) -> None:
        self.path = ""
        self._added = False
        """The folder is on Python's path only because of this class."""
        self._modules: set[str] = set()
        """Names of the modules that were first imported from it here."""

    def move(self, path: str) -> None:
        """Go to another folder: a module of the same name there is another one."""
        if path == self.path:
            return
        if self._added and self.path in sys.path:
            sys.path.remove(self.path)
        for name in self._modules:
            sys.modules.pop(name, None)
        self.path, self._added, self._modules = path, False, set()

    def load(self, name: str) -> ModuleType:
        """Import a module. Raises what the import raises."""
        if self.path and self.path not in sys.path:
            sys.path.append(self.path)  # and it stays: a plug-in may import its neighbours late
            self._added = True
        importlib.invalidate_caches()
        new = name not in sys.modules
        module = importlib.import_module(name)
        if new and self.path and str(module.__file__).startswith(f"{self.path}{os.sep}"):
            self._modules.add(name)
        return module


_folder = _PluginFolder()


def look_in(folder: Path) -> None:
    """Let plug-ins be found in a folder too, behind Python's own path, in place of the one before."""
    _folder.move(str(folder))


def resolve(kind: str, known: Mapping[str, Any], what: str) -> Any:
    """Return the object that a kind names.

    Raises `ConfigError` if the kind is neither known nor importable; the message lists the known ones.
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
        module = _folder.load(module_name)
    except ModuleNotFoundError as error:
        places = ", then ".join(filter(None, ["Python's path (PYTHONPATH)", _folder.path]))
        raise ConfigError(f"{what} {kind!r} cannot be imported: {error}; looked in {places}") from None
    except (Exception, SystemExit) as error:  # a user's module may raise anything; it becomes one clear message
        said = str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
        raise ConfigError(f"{what} {kind!r} cannot be imported: {said}") from error
    if not hasattr(module, attribute):
        place = module.__file__ or "built into Python"
        raise ConfigError(f"{what} {kind!r} cannot be imported: {module_name} is {place}, and has no {attribute}")
    return getattr(module, attribute)


def make(kind: str, known: Mapping[str, Any], what: str, *arguments: Any, **options: Any) -> Any:
    """Call what a kind names, and return the object.

    Raises `ConfigError` as `resolve` does; or a class of the user's own raises, or its object lacks `MEMBERS`.
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
