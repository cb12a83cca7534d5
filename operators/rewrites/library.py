"""What every library of source rewrites offers to the operator `rewrite`: moves, and applying one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from evokernel.task import Task


@dataclass(frozen=True, slots=True)
class RewriteMove:
    """One legal rewrite of a source: name of the rewrite, label of the place, number among its sites."""

    rewrite: str
    label: str
    index: int


class RewriteLibrary(Protocol):
    """Rewrites of one language; a package with these two functions is one."""

    def moves(self, source: str, *, threads: int = 1) -> tuple[RewriteMove, ...]:
        """All legal moves on a source, in a fixed order; empty for a text that is no readable kernel."""

    def favoured(self, task: Task) -> frozenset[str]:
        """The kinds of rewrites that the sizes of a task call for."""

    def apply(self, source: str, move: RewriteMove) -> str:
        """The source after a move. Raises `ValueError` where it is not one of this source's."""
