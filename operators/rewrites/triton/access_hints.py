"""Cache hints of loads and stores: which caches to use, and what to evict first.

An access has one of the two: PTX has no instruction with both, and the assembler refuses it.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from operators.rewrites.triton.analysis import calls, labels
from operators.rewrites.triton.source import TritonKernel, TritonModule, called
from operators.rewrites.triton.span_edits import SpanEdits, TritonRewrite


@dataclass(frozen=True, slots=True)
class AccessHint(TritonRewrite):
    """One keyword of `tl.load` and `tl.store`."""

    name: str
    """The keyword."""
    loads: tuple[str, ...]
    """Values for loads."""
    stores: tuple[str, ...]
    """Values for stores."""

    def places(self, module: TritonModule, kernel: TritonKernel) -> Iterator[tuple[str, tuple[ast.Call, str]]]:
        """Yield each load and store with each value, but the one that it has."""
        accesses = calls(kernel, "tl.load", "tl.store")
        for access, label in zip(accesses, labels(module, accesses), strict=True):
            given = _hints(access)
            for value in self.loads if called(access, "tl.load") else self.stores:
                if len(given) < 2 and not any(ast.unparse(each.value) == repr(value) for each in given):
                    yield f"{kernel.name} {label} {value}", (access, value)

    def edit(self, edits: SpanEdits, kernel: TritonKernel, found: tuple[ast.Call, str]) -> None:
        """Give the load or store the keyword, in place of the hint that it has."""
        access, value = found
        for given in _hints(access):
            edits.replace(given, f'{self.name}="{value}"')
            return
        edits.add_keyword(access, self.name, f'"{value}"')


def _hints(access: ast.Call) -> list[ast.keyword]:
    return [each for each in access.keywords if each.arg in ("cache_modifier", "eviction_policy")]


CACHE_MODIFIER = AccessHint("cache_modifier", loads=(".cg", ".ca"), stores=(".cs", ".cg", ".wt"))
EVICTION_POLICY = AccessHint("eviction_policy", *[("evict_first", "evict_last")] * 2)
