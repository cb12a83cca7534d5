"""A site of a rewrite of Triton sources."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TritonSite:
    """A place where a rewrite is legal: a label for people, and what the rewrite needs to find it again."""

    label: str
    detail: tuple[str | int, ...] = ()
