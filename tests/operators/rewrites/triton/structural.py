"""Applies one structural rewrite in tests, and runs what it writes in the interpreter."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evokernel.source.tunables import read_tunables
from operators.rewrites.library import SourceRewrite
from operators.rewrites.triton.source import TritonModule
from tests.support.interpret import SMALL, Case, interpret

Rewrite = SourceRewrite[TritonModule, Any, str]
Arguments = tuple[list[Any], Callable[[list[Any]], bool]]


def offered(rewrite: Rewrite, source: str) -> list[str]:
    """Labels of the sites of a rewrite in a source."""
    return [site.label for site in rewrite.sites(TritonModule.parse(source))]


def rewritten(rewrite: Rewrite, source: str, number: int = 0) -> str:
    """The source after a rewrite at one of its sites, which is fewer afterwards; its tunables stay readable."""
    module = TritonModule.parse(source)
    sites = rewrite.sites(module)
    text = rewrite.apply(module, sites[number])
    assert read_tunables(text).values.items() >= read_tunables(source).values.items()
    assert len(rewrite.sites(TritonModule.parse(text))) < len(sites)
    return text


def wrong(cases: Sequence[tuple[str, Arguments]], tunables: Mapping[str, int] = SMALL) -> list[str]:
    """The cases whose call fails or leaves something wrong, as text."""
    asked = [Case(source, call[0], tunables) for source, call in cases]
    return [
        f"case {number}: {left if isinstance(left, str) else 'wrong result'}"
        for number, (left, (_, call)) in enumerate(zip(interpret(asked), cases, strict=True))
        if isinstance(left, str) or not call[1](left)
    ]
