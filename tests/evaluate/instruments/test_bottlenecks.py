"""Each rule fires on the counters that it is for, and not on those of its neighbour."""

from collections.abc import Mapping

import pytest

from evokernel.evaluate.instruments.bottlenecks import RULES, derive, diagnose
from tests.evaluate.instruments.reports import QUIET

Changes = Mapping[str, float]
# For each rule the counters that differ from a quiet kernel's: those of a kernel that it names, and of a neighbour.
PLANTED: Mapping[str, tuple[Changes, Changes]] = {
    "idle multiprocessors": ({"grid_blocks": 64, "waves": 0.5}, {"grid_blocks": 128, "waves": 0.97}),
    "tail": ({"grid_blocks": 145, "waves": 1.1}, {"grid_blocks": 250, "waves": 1.9}),
    "tensor pipe": ({"tensor_pct": 89.4}, {"tensor_pct": 60}),
    "register spills": ({"local_sectors": 600_000}, {"local_sectors": 50_000}),
    "uncoalesced loads": (
        {"load_sectors": 1_600_000, "l2_sectors": 1_600_000, "dram_pct": 90},
        {"load_requests": 100_000, "dram_pct": 90},
    ),
    "uncoalesced stores": ({"store_sectors": 600_000}, {"store_sectors": 600_000, "store_requests": 40_000}),
    "shared memory bank conflicts": (
        {"bank_conflicts": 90_000, "shared_pct": 95},
        {"bank_conflicts": 90_000, "shared_pct": 12},
    ),
    "device memory": ({"dram_pct": 91, "l2_pct": 80}, {"dram_pct": 60}),
    "second-level cache": ({"l2_pct": 85, "dram_pct": 10}, {"l2_pct": 50}),
    "special functions": ({"special_pct": 97, "issue_pct": 70}, {"special_pct": 50}),
    "fp32 pipe": ({"fma_pct": 96, "issue_pct": 98}, {"fma_pct": 62, "issue_pct": 70}),
    "integer and logic pipe": ({"alu_pct": 95, "issue_pct": 60}, {"alu_pct": 60, "issue_pct": 60}),
    "instruction issue": ({"issue_pct": 94, "fma_pct": 65, "alu_pct": 65}, {"issue_pct": 70, "fma_pct": 65}),
    "barriers": ({"barrier_wait_cycles": 7}, {"barrier_wait_cycles": 2}),
    "too few warps": ({"memory_wait_cycles": 8, "warps_pct": 6}, {"memory_wait_cycles": 1, "warps_pct": 6}),
    "memory latency": ({"memory_wait_cycles": 8}, {"memory_wait_cycles": 2}),
}


def rule_of(changes: Changes) -> str:
    return diagnose(derive({**QUIET, **changes}, multiprocessors=132)).rule


@pytest.mark.parametrize("name", [rule.name for rule in RULES])
def test_a_rule_fires_on_its_own_and_not_on_its_neighbour(name: str) -> None:
    planted, neighbour = PLANTED[name]
    assert rule_of(planted) == name
    assert rule_of(neighbour) != name


@pytest.mark.parametrize("name", [rule.name for rule in RULES])
def test_what_is_told_has_the_numbers_that_count(name: str) -> None:
    changes = PLANTED[name][0]
    found = diagnose(derive({**QUIET, **changes}, multiprocessors=132))
    assert found.advice
    assert any(figure.isdigit() for figure in found.evidence)
    assert "{" not in found.evidence


@pytest.mark.parametrize("name", [rule.name for rule in RULES])
def test_a_rule_says_nothing_without_its_counters(name: str) -> None:
    (rule,) = (each for each in RULES if each.name == name)
    known = derive({**QUIET, **PLANTED[name][0]}, multiprocessors=132)
    for needed in (*rule.at_least, *rule.at_most):
        assert not rule.fits({key: value for key, value in known.items() if key != needed})


def test_a_quiet_kernel_has_no_bottleneck_but_is_described() -> None:
    found = diagnose(derive(QUIET, multiprocessors=132))
    assert found.rule == ""
    assert found.evidence == "nothing stands out; the most is instruction issue with 30 % of its peak"
    assert diagnose(derive({}, multiprocessors=132)).evidence == "no counter of the table could be read"


def test_every_metric_may_be_missing() -> None:
    for name in QUIET:
        for planted, _ in PLANTED.values():
            left = {key: value for key, value in {**QUIET, **planted}.items() if key != name}
            diagnose(derive(left, multiprocessors=132))


def test_shares_are_of_what_is_moved() -> None:
    known = derive({**QUIET, "load_sectors": 0.0, "local_sectors": 10.0}, multiprocessors=132)
    assert known["spill_pct"] == pytest.approx(0.001)  # bulk copies move the rest, past the pipe of loads
    assert known["store_share_pct"] == pytest.approx(20)
    assert "sectors_a_load" in known
    assert "sectors_a_load" not in derive({**QUIET, "load_requests": 0.0}, multiprocessors=132)


def test_whole_waves_leave_no_tail() -> None:
    for waves, lost in ((1.0, 0.0), (2.0, 0.0), (1.1, 45.0), (0.5, 50.0)):
        assert derive({"waves": waves}, multiprocessors=132)["tail_pct"] == pytest.approx(lost)
    assert rule_of({"waves": 0.5, "grid_blocks": 132}) == ""  # as many persistent blocks as multiprocessors
