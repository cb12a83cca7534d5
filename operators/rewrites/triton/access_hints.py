"""Cache hints of loads and stores: which caches to use, and what to evict first.

An access has one of the two: PTX has no instruction with both, and the assembler refuses it.
"""

import ast
from dataclasses import dataclass

from operators.rewrites.triton.analysis import calls, labels
from operators.rewrites.triton.source import TritonModule, TritonSite, called
from operators.rewrites.triton.span_edits import SpanEdits


@dataclass(frozen=True, slots=True)
class AccessHint:
    """One keyword of `tl.load` and `tl.store`."""

    name: str
    """The keyword."""
    loads: tuple[str, ...]
    """Values for loads."""
    stores: tuple[str, ...]
    """Values for stores."""

    def sites(self, module: TritonModule) -> list[TritonSite]:
        """Return one site per load or store and value, but the one that it has."""
        found = []
        for kernel in module.kernels.values():
            accesses = calls(kernel, "tl.load", "tl.store")
            for number, (access, label) in enumerate(zip(accesses, labels(module, accesses), strict=True)):
                given = _hints(access)
                if len(given) > 1:
                    continue
                for value in self.loads if called(access, "tl.load") else self.stores:
                    if not any(ast.unparse(each.value) == repr(value) for each in given):
                        found.append(TritonSite(f"{kernel.name} {label} {value}", (kernel.name, number, value)))
        return found

    def apply(self, module: TritonModule, site: TritonSite) -> str:
        """Return the load or store with the keyword, in place of the hint that it has."""
        name, number, value = site.detail
        access = calls(module.kernels[str(name)], "tl.load", "tl.store")[int(number)]
        edits = SpanEdits(module)
        for given in _hints(access):
            edits.replace(given, f'{self.name}="{value}"')
            return edits.result()
        edits.add_keyword(access, self.name, f'"{value}"')
        return edits.result()


def _hints(access: ast.Call) -> list[ast.keyword]:
    return [each for each in access.keywords if each.arg in ("cache_modifier", "eviction_policy")]


CACHE_MODIFIER = AccessHint("cache_modifier", loads=(".cg", ".ca"), stores=(".cs", ".cg", ".wt"))
EVICTION_POLICY = AccessHint("eviction_policy", *[("evict_first", "evict_last")] * 2)
