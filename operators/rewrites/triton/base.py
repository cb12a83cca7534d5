"""What a rewrite of Triton sources is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from operators.rewrites.triton.source import TritonModule


@dataclass(frozen=True, slots=True)
class TritonSite:
    """A place where a rewrite is legal: a label for people, and what the rewrite needs to find it again."""

    label: str
    detail: tuple[str | int, ...] = ()


class TritonRewrite(Protocol):
    """A source transformation."""

    @property
    def name(self) -> str:
        """The word a search knows it by."""

    def sites(self, module: TritonModule) -> list[TritonSite]:
        """The places where the rewrite is legal, best first."""

    def apply(self, module: TritonModule, site: TritonSite) -> str:
        """The source rewritten at one of its sites."""
