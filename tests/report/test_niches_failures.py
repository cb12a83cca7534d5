"""Niches as a map, failures by stage, and what changed between two sources."""

from pathlib import Path

import yaml

from archive.views.failures import EmptySteps, failures_of, nothing_of
from evokernel.records.evaluation import Status
from evokernel.report.niches import niche_maps
from evokernel.report.points import points_of
from evokernel.report.source_diff import CHANGED_LINES, LINE_CHARACTERS, changes
from tests.support.stores import StoreBuilder

AXES = {"vector_bits": [128.0, 256.0, 512.0], "spills": [1.0]}


def island(name: str, axes: dict[str, list[float]]) -> dict[str, object]:
    return {"name": name, "niches": {"axes": axes}}


def test_cells_hold_how_many_were_tried_and_the_best(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "a.db") as builder:
        other = {"vector_bits": [64.0]}
        config = {"islands": [island("builders", AXES), island("tuners", AXES), island("others", other)]}
        builder.store.set_meta("config", yaml.safe_dump(config, sort_keys=False))
        builder.seed(speedup=0.5)
        builder.add("// a\n", speedup=2.0)
        best = builder.add("// b\n", speedup=3.0, island="tuners")
        builder.add("// wrong\n", speedup=None)
        points = points_of(builder.store)
        shared, alone = niche_maps(builder.store, points)
    assert (shared.islands, alone.islands) == (("builders", "tuners"), ("others",))
    ((at, cell),) = shared.cells.items()
    assert (at, cell.tried, points[cell.best].candidate) == ((2, 0), 3, best)  # 256 bits, no spills said
    assert [cell.tried for cell in alone.cells.values()] == [1]  # the seed is on every map


def test_a_store_without_a_config_has_no_map(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "a.db") as builder:
        builder.seed()
        for config in (
            "",
            "- just\n- a list\n",
            "islands: [{name: a}]",
            "a: [",
            "islands: [{name: a, niches: {axes: 3}}]",
        ):
            builder.store.set_meta("config", config)
            assert niche_maps(builder.store, points_of(builder.store)) == []


def test_failures_by_stage_with_examples_that_differ(tmp_path: Path) -> None:
    with StoreBuilder(tmp_path / "a.db") as builder:
        builder.seed()
        for number in range(5):
            builder.add(f"// same {number}\n", speedup=None, feedback="element 3 differs")
        builder.add("// other\n", speedup=None, feedback="element 9 differs", operator="mutate")
        builder.add("// slow\n", speedup=None, status=Status.TIMEOUT, feedback="took too long")
        builder.nothing("no loop left to split")
        builder.nothing("the kernel in the reply is 0123456789abcdef, which was tried before")
        builder.nothing("the kernel in the reply is fedcba9876543210, which was tried before")
        most, least = failures_of(builder.store)
        nothing = nothing_of(builder.store)
    assert (most.status, most.count, least.status, least.count) == ("numerical", 6, "timeout", 1)
    assert [example.feedback for example in most.examples] == ["element 9 differs", "element 3 differs"]
    assert most.examples[0].operator == "mutate"
    known = "the kernel in the reply is ..., which was tried before"
    assert nothing == (EmptySteps("mutate", known, 2), EmptySteps("mutate", "no loop left to split", 1))


def test_changes_are_a_diff_without_its_heading() -> None:
    found = changes("a\nb\nc", "a\nB\nc\nd")
    assert found.lines == ("@@ -1,3 +1,4 @@", " a", "-b", "+B", " c", "+d")
    assert (found.added, found.removed, found.cut) == (2, 1, False)


def test_changes_of_huge_texts_are_cut_and_say_so() -> None:
    line = changes("short", "x" * 1_000_000)
    assert line.cut
    assert max(map(len, line.lines)) <= LINE_CHARACTERS + 1
    many = changes("", "\n".join(map(str, range(100_000))))
    assert (many.cut, len(many.lines)) == (True, CHANGED_LINES)


def test_changes_hold_nothing_that_steers() -> None:
    assert changes("a", "\x1b[2J\u202eb\x00").lines[-1] == "+[2Jb"
