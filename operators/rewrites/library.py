"""Libraries of source rewrites: listing the legal moves on a source, and applying one.

A language declares its reader, its writer and its rewrites. Order matters to a search that picks early moves more
often, so the strong rewrites come first.
"""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from evokernel.task import Task

TUNING = re.compile(r"#\s*tune(?:-where)?:")
"""Beginning of a comment that names tunables, in every language with Python around its kernels."""


class RewriteSite(Protocol):
    """A place where a rewrite is legal."""

    @property
    def label(self) -> str:
        """Name of the place, for people."""


@dataclass(frozen=True, slots=True)
class KernelSite:
    """A place in a kernel where a rewrite is legal."""

    label: str
    """Its name, for people."""
    kernel: Any
    """The kernel, in the source that was searched."""
    found: Any
    """What the rewrite has found there."""


class KernelRewrite:
    """A transformation of one kernel at a time: a subclass finds its places, and edits the source at one of them."""

    edits: ClassVar[type[Any]]
    """Edits of a source in the language; made of the source as it was read."""

    def places(self, module: Any, kernel: Any) -> Iterable[tuple[str, Any]]:
        """Yield the places in a kernel where the rewrite is legal, best first: name, and what `edit` gets."""
        raise NotImplementedError

    def edit(self, edits: Any, kernel: Any, found: Any) -> None:
        """Write the rewrite at a place into the edits of the source."""
        raise NotImplementedError

    def sites(self, module: Any) -> list[KernelSite]:
        """Return the sites in all kernels."""
        kernels = module.kernels.values()
        return [KernelSite(label, kernel, found) for kernel in kernels for label, found in self.places(module, kernel)]

    def apply(self, module: Any, site: KernelSite) -> str:
        """Return the source rewritten at a site."""
        edits = self.edits(module)
        self.edit(edits, site.kernel, site.found)
        return str(edits.result())


ReadT = TypeVar("ReadT")
SiteT = TypeVar("SiteT", bound=RewriteSite)
WrittenT = TypeVar("WrittenT")
_ReadIn = TypeVar("_ReadIn", contravariant=True)
_WrittenOut = TypeVar("_WrittenOut", covariant=True)


class SourceRewrite(Protocol[_ReadIn, SiteT, _WrittenOut]):
    """A source transformation."""

    @property
    def name(self) -> str:
        """Name of the rewrite, for a search."""

    def sites(self, source: _ReadIn, /) -> list[SiteT]:
        """Return the places where the rewrite is legal, best first."""

    def apply(self, source: _ReadIn, site: SiteT, /) -> _WrittenOut:
        """Return the source rewritten at one of its sites."""


@dataclass(frozen=True, slots=True)
class RewriteMove:
    """One legal rewrite of a source."""

    rewrite: str
    """The name of the rewrite."""
    label: str
    """The name of the place."""
    index: int
    """Its number among the sites of that rewrite, from 0."""


def no_favourites(task: Task) -> frozenset[str]:
    """Return no kinds: the order of the library alone decides."""
    del task
    return frozenset()


class RewriteLibrary(Generic[ReadT, SiteT, WrittenT]):
    """The rewrites of one language."""

    def __init__(
        self,
        rewrites: Sequence[SourceRewrite[ReadT, SiteT, WrittenT]],
        *,
        read: Callable[[str], ReadT],
        write: Callable[[WrittenT], str],
        unreadable: tuple[type[Exception], ...],
        favoured: Callable[[Task], frozenset[str]] = no_favourites,
        need_threads: Collection[str] = (),
    ) -> None:
        """Take rewrites, strong ones first.

        Args:
            unreadable: errors of `read` and of `sites` for a text that is no kernel of the language.
            favoured: returns the kinds of rewrites that the sizes of a task call for.
            need_threads: names of those that are offered for more than one thread only.
        """
        self.by_name = {rewrite.name: rewrite for rewrite in rewrites}
        self.favoured = favoured
        self._read, self._write, self._unreadable = read, write, unreadable
        self._need_threads = frozenset(need_threads)
        self._all_moves = lru_cache(maxsize=256)(self._find)

    def moves(self, source: str, *, threads: int = 1) -> tuple[RewriteMove, ...]:
        """Return all legal moves on a source, in a fixed order; empty for a text that is no readable kernel.

        `threads` counts those of the host that a kernel may use.
        """
        found = self._all_moves(source)
        return tuple(move for move in found if threads > 1 or move.rewrite not in self._need_threads)

    def apply(self, source: str, move: RewriteMove) -> str:
        """Return the source after a move. Raises `ValueError` if the move is not one of this source's."""
        if move not in self._all_moves(source):
            raise ValueError(f"no move {move.rewrite!r} at {move.label!r} in this source")
        parsed, rewrite = self._read(source), self.by_name[move.rewrite]
        return self._write(rewrite.apply(parsed, rewrite.sites(parsed)[move.index]))

    def _find(self, source: str) -> tuple[RewriteMove, ...]:
        try:
            parsed = self._read(source)
            return tuple(
                RewriteMove(name, site.label, index)
                for name, rewrite in self.by_name.items()
                for index, site in enumerate(rewrite.sites(parsed))
            )
        except self._unreadable:
            return ()


AnyRewriteLibrary = RewriteLibrary[Any, Any, Any]


def edited(text: str, edits: Iterable[tuple[int, int, str]]) -> str:
    """Return a text with spans of it replaced. Raises `ValueError` if two overlap."""
    pieces, at = [], 0
    for start, stop, new in sorted(edits, key=lambda edit: edit[:2]):
        if start < at:
            raise ValueError(f"edits overlap at offset {start}")
        pieces += [text[at:start], new]
        at = stop
    return "".join(pieces) + text[at:]


def unused_name(name: str, used: Collection[str]) -> str:
    """Return the name, with a number behind it if it is used already."""
    candidate, number = name, 2
    while candidate in used:
        candidate, number = f"{name}{number}", number + 1
    return candidate
