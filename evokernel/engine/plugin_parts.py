"""Selectors, choosers and stoppers of a user's own: whatever goes wrong in one ends the search in a line that names it.

There is no going on without them, as there is without an operator: by whom should a parent be picked?
"""

import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from traceback import extract_tb
from typing import Any

from evokernel.errors import ConfigError
from evokernel.protocols import Chooser, Selector, Stopper
from evokernel.records.fitness import Elite
from evokernel.records.run import Progress
from evokernel.records.step import OperatorRecord


class PluginSelector:
    """A selector whose faults are told with `name`."""

    def __init__(self, selector: Selector, name: str) -> None:
        self.by_workload = getattr(selector, "by_workload", False)
        self._selector = selector
        self._name = name

    def select(self, elites: Sequence[Elite], picks: Mapping[str, int], rng: Any) -> Elite:
        """Return one of the elites. Raises `ConfigError`."""
        made: Elite = _called(self._name, lambda: self._selector.select(elites, picks, rng))
        if not any(made is elite for elite in elites):
            raise ConfigError(
                f"{self._name} failed: select returned {reprlib.repr(made)}; expected one of the elites it got"
            )
        return made


class PluginChooser:
    """A chooser whose faults are told with `name`."""

    def __init__(self, chooser: Chooser, name: str) -> None:
        self.pairs = getattr(chooser, "pairs", False)
        self._chooser = chooser
        self._name = name

    def order(self, shares: Mapping[str, float], accounts: Mapping[str, OperatorRecord], rng: Any) -> Sequence[str]:
        """Return names of operators. Raises `ConfigError`."""
        made: Any = _called(self._name, lambda: self._chooser.order(shares, accounts, rng))
        names = [*made] if isinstance(made, Iterable) else []
        if not isinstance(made, Iterable) or any(name not in shares for name in names):
            raise ConfigError(
                f"{self._name} failed: order returned {reprlib.repr(made)}; expected a list of {[*shares]}"
            )
        return names


class PluginStopper:
    """A stopper whose faults are told with `name`."""

    def __init__(self, stopper: Stopper, name: str) -> None:
        self._stopper = stopper
        self._name = name

    def reason(self, progress: Progress) -> str | None:
        """Return the reason to stop, or None. Raises `ConfigError`."""
        made: Any = _called(self._name, lambda: self._stopper.reason(progress))
        if not isinstance(made, str | None):
            raise ConfigError(f"{self._name} failed: reason returned {reprlib.repr(made)}; expected a text or None")
        return made

    def remaining(self, progress: Progress) -> float | None:
        """Return the share of the budget left, or None. Raises `ConfigError`."""
        made: Any = _called(self._name, lambda: self._stopper.remaining(progress))
        if not isinstance(made, float | int | None):
            raise ConfigError(
                f"{self._name} failed: remaining returned {reprlib.repr(made)}; expected a number or None"
            )
        return made


def _called(name: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:  # the edge of a plug-in: it may raise anything, which becomes one clear message
        last = extract_tb(error.__traceback__)[-1]
        raise ConfigError(f"{name} failed: {type(error).__name__}: {error} ({last.filename}:{last.lineno})") from error
