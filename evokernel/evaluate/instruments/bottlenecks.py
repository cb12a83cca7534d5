"""Bottlenecks by hardware counters: a table whose first matching row decides.

A row's conditions are on counters (`counters.METRICS`) and on quantities from `derive`. A row comes before those whose
symptoms it explains: idle multiprocessors before a busy pipe, wasteful access before busy memory, a full pipe before
waiting warps.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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


RULES: Sequence[Rule] = (
    Rule(
        "idle multiprocessors",
        "{grid_blocks:.0f} blocks leave {idle_pct:.0f} % of the {multiprocessors:.0f} multiprocessors without work",
        "make more blocks: smaller tiles, or split the reduction dimension between blocks and add up",
        {"idle_pct": 20},
    ),
    Rule(
        "tail",
        "{waves:.2f} waves of blocks: the last one leaves the machine mostly empty, {tail_pct:.0f} % of the time",
        "choose tiles so that the number of waves is just below a whole one, or let as many blocks as fit loop over "
        "the tiles",
        {"waves": 1, "tail_pct": 25},
        {"dram_pct": 60, "l2_pct": 60},
    ),
    Rule(
        "tensor pipe",
        "the tensor cores are at work {tensor_pct:.0f} % of the time",
        "this is what the device can do with these numbers; only fewer or cheaper products help",
        {"tensor_pct": 75},
    ),
    Rule(
        "register spills",
        "{spill_pct:.0f} % of the sectors loaded are of local memory, where values are kept that no register holds",
        "keep fewer values alive in a thread: smaller tiles or more warps a block, less unrolling, no array that is "
        "indexed by a variable",
        {"spill_pct": 20},
    ),
    Rule(
        "uncoalesced loads",
        "a warp's load touches {sectors_a_load:.1f} sectors of 32 bytes, where 16 hold the widest that is coalesced",
        "let neighbouring threads read neighbouring addresses: another order of the dimensions, or a tile that is read "
        "along its rows and turned in shared memory",
        {"sectors_a_load": 17, "load_share_pct": 30},
    ),
    Rule(
        "uncoalesced stores",
        "a warp's store touches {sectors_a_store:.1f} sectors of 32 bytes, where 16 hold the widest that is coalesced",
        "let neighbouring threads write neighbouring addresses: turn the tile in shared memory before it is written",
        {"sectors_a_store": 17, "store_share_pct": 30},
    ),
    Rule(
        "shared memory bank conflicts",
        "{conflict_pct:.0f} % of shared memory's work is repetition for bank conflicts, and it is busy "
        "{shared_pct:.0f} % of the time",
        "pad the rows of the tile by 4 bytes times an odd number, or swizzle its columns by the row",
        {"conflict_pct": 30, "shared_pct": 40},
    ),
    Rule(
        "device memory",
        "device memory is busy {dram_pct:.0f} % of the time",
        "move fewer bytes: one pass instead of several, reuse in registers or shared memory, narrower types in "
        "scratch; the access itself is as fast as it gets",
        {"dram_pct": 75},
    ),
    Rule(
        "second-level cache",
        "the second-level cache is busy {l2_pct:.0f} % of the time, device memory only {dram_pct:.0f} %",
        "read each value fewer times: larger tiles in shared memory or registers",
        {"l2_pct": 65, "dram_pct": 0},
    ),
    Rule(
        "special functions",
        "the unit of exponentials, reciprocals and conversions is at work {special_pct:.0f} % of the time",
        "compute fewer of them: factor them out of loops, replace some by polynomials on the other pipes",
        {"special_pct": 80},
    ),
    Rule(
        "fp32 pipe",
        "the pipe of multiplications and additions is at work {fma_pct:.0f} % of the time",
        "do less arithmetic, or let the tensor cores do it where it is a product of tiles",
        {"fma_pct": 80},
    ),
    Rule(
        "integer and logic pipe",
        "the pipe of integer and logic operations is at work {alu_pct:.0f} % of the time",
        "compute addresses and masks once outside of the loop, with powers of two and 32 bits",
        {"alu_pct": 80},
    ),
    Rule(
        "instruction issue",
        "instructions are issued in {issue_pct:.0f} % of the cycles, and no pipe is full",
        "use fewer instructions for the same work: wider loads and stores, unrolling, vector types",
        {"issue_pct": 80},
    ),
    Rule(
        "barriers",
        "{barrier_wait_pct:.0f} % of a warp's time is spent waiting at barriers",
        "synchronise less often, share the work before a barrier evenly, or use smaller blocks",
        {"barrier_wait_pct": 30},
    ),
    Rule(
        "too few warps",
        "{memory_wait_pct:.0f} % of a warp's time is spent waiting for loads, with {warps_pct:.0f} % of the warps in "
        "flight that there could be",
        "let more blocks fit: fewer registers a thread, less shared memory a block; or load further ahead",
        {"memory_wait_pct": 30},
        {"warps_pct": 30},
    ),
    Rule(
        "memory latency",
        "{memory_wait_pct:.0f} % of a warp's time is spent waiting for loads, while neither memory nor a pipe is full",
        "have more loads under way: begin those of the next step before computing this one, several independent ones "
        "a thread, wider ones",
        {"memory_wait_pct": 30},
    ),
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
