"""Bottlenecks by hardware counters: a table whose first matching row decides.

A row's conditions are on counters (`counters.METRICS`) and on quantities from `derive`. A row comes before those whose
symptoms it explains: idle multiprocessors before a busy pipe, wasteful access before busy memory, a full pipe before
waiting warps.
"""

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

Counters = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Rule:
    """One row: it matches where every quantity is within its bounds; an unknown quantity matches none."""

    name: str
    """The bottleneck."""
    evidence: str
    """Text with quantities in braces."""
    advice: str
    """Change that helps against it."""
    at_least: Mapping[str, float]
    """Lower bounds by quantity."""
    at_most: Mapping[str, float] = field(default_factory=dict)
    """Upper bounds by quantity."""

    def fits(self, known: Counters) -> bool:
        """Say whether the counters show this bottleneck."""
        return all(known.get(name, -math.inf) >= least for name, least in self.at_least.items()) and all(
            known.get(name, math.inf) <= most for name, most in self.at_most.items()
        )


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The bottleneck of a kernel."""

    rule: str
    """Name of the row; empty where none matches."""
    evidence: str
    """Text with the quantities that show it."""
    advice: str
    """Change that helps against it."""


RULES: Sequence[Rule] = tuple(
    Rule(**row) for row in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["rules"]
)


def derive(counters: Counters, *, multiprocessors: int) -> dict[str, float]:
    """Return the counters and quantities derived from them: shares in %, sectors a request; unknown ones are left out.

    Shares of sectors are of all that a kernel moves. These are the sectors its loads and stores request, or those
    multiprocessors request from the second-level cache, where bulk copies make that more.
    """
    known = {**counters, "multiprocessors": float(multiprocessors)}

    def ratio(name: str, of: str, to: str, *, scale: float = 1.0) -> None:
        if of in known and known.get(to):
            known[name] = scale * known[of] / known[to]

    asked = sum(known.get(f"{kind}_sectors", 0.0) for kind in ("load", "store", "local"))
    known["sectors"] = max(asked, known.get("l2_sectors", 0.0))
    ratio("sectors_a_load", "load_sectors", "load_requests")
    ratio("sectors_a_store", "store_sectors", "store_requests")
    ratio("load_share_pct", "load_sectors", "sectors", scale=100)
    ratio("store_share_pct", "store_sectors", "sectors", scale=100)
    ratio("spill_pct", "local_sectors", "sectors", scale=100)
    ratio("conflict_pct", "bank_conflicts", "shared_wavefronts", scale=100)
    ratio("memory_wait_pct", "memory_wait_cycles", "issue_cycles", scale=100)
    ratio("barrier_wait_pct", "barrier_wait_cycles", "issue_cycles", scale=100)
    if "grid_blocks" in known:
        known["idle_pct"] = 100 * max(0.0, 1 - known["grid_blocks"] / multiprocessors)
    if known.get("waves"):
        known["tail_pct"] = 100 * (1 - known["waves"] / math.ceil(known["waves"]))
    return known


def diagnose(known: Counters) -> Diagnosis:
    """Return the bottleneck shown by the quantities of `derive`."""
    for rule in RULES:
        if rule.fits(known):
            return Diagnosis(rule.name, rule.evidence.format_map(known), rule.advice)
    busiest = [name for name in known if name.endswith("_pct") and name in _SHARES_OF_PEAK]
    if not busiest:
        return Diagnosis("", "no counter of the table could be read", "")
    most = max(busiest, key=lambda name: known[name])
    evidence = f"nothing stands out; the most is {_SHARES_OF_PEAK[most]} with {known[most]:.0f} % of its peak"
    return Diagnosis("", evidence, "look for work that waits for other work: longer independent stretches in a thread")


_SHARES_OF_PEAK = {
    "dram_pct": "device memory",
    "l2_pct": "the second-level cache",
    "tensor_pct": "the tensor pipe",
    "fma_pct": "the fp32 pipe",
    "alu_pct": "the integer pipe",
    "special_pct": "the special-function pipe",
    "issue_pct": "instruction issue",
    "shared_pct": "shared memory",
}
