"""Cache hints of loads and stores: which caches to use, and what to evict first."""

from dataclasses import dataclass

from operators.rewrites.triton.analysis import calls, labels
from operators.rewrites.triton.source import TritonModule, TritonSite, called, keyword_of
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
        """Return one site per value and per load or store without the keyword."""
        found = []
        for kernel in module.kernels.values():
            accesses = calls(kernel, "tl.load", "tl.store")
            for number, (access, label) in enumerate(zip(accesses, labels(module, accesses), strict=True)):
                if keyword_of(access, self.name) is not None:
                    continue
                for value in self.loads if called(access, "tl.load") else self.stores:
                    found.append(TritonSite(f"{kernel.name} {label} {value}", (kernel.name, number, value)))
        return found

    def apply(self, module: TritonModule, site: TritonSite) -> str:
        """Return the load or store with the keyword."""
        name, number, value = site.detail
        access = calls(module.kernels[str(name)], "tl.load", "tl.store")[int(number)]
        edits = SpanEdits(module)
        edits.add_keyword(access, self.name, f'"{value}"')
        return edits.result()


CACHE_MODIFIER = AccessHint("cache_modifier", loads=(".cg", ".ca"), stores=(".cs", ".cg", ".wt"))
EVICTION_POLICY = AccessHint("eviction_policy", *[("evict_first", "evict_last")] * 2)
