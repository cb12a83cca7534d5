"""Regions under the rewrites: kept where they still mean something, never left broken."""

import asyncio
from dataclasses import replace

import pytest

from evokernel.languages.cpp.static_check import static_check
from evokernel.records.candidate import Candidate
from evokernel.source.protected import END as EVOLVE_END
from evokernel.source.protected import START as EVOLVE_START
from evokernel.source.protected import protected_change
from evokernel.source.regions import only_whole, read_regions
from operators.rewrites.cpp import CPP_REWRITES
from operators.rewrites.cpp.ir.reader import read
from operators.rewrites.cpp.ir.writer import write
from operators.rewrites.triton import TRITON_REWRITES
from operators.rules.rewrite import Rewrite
from tests.operators.rewrites.triton.sources import GEMM
from tests.operators.rules.test_grafting import context
from tests.support.skeletons import ROWS, SPLIT

NEST = """\
#include <cstdint>
// region: scale
constexpr float SCALE = 2.0f;
// endregion
extern "C" void run(const float* a, const float* b, int64_t M, int64_t N, int64_t K, float* c) {
    for (int64_t i = 0; i < M; ++i) {
        {row}
        for (int64_t j = 0; j < N; ++j) {
            float acc = 0.0f;
            for (int64_t k = 0; k < K; ++k) {
                acc += a[i * K + k] * b[k * N + j];
            }
            {store}
            c[i * N + j] = acc;
            {end_store}
        }
        {end_row}
    }
}
"""
END = "// endregion"


def nest(**marks: str) -> str:
    source = NEST
    for name in ("row", "store", "end_row", "end_store"):
        source = source.replace("{" + name + "}", marks.get(name, ""))
    return source


ROW = nest(row="// region: row", end_row=END)
INNER = nest(store="// region: store", end_store=END)


def bare(text: str) -> str:
    """A text without what a writer may lay out in another way."""
    return "".join(text.split()).replace("{", "").replace("}", "")


@pytest.mark.parametrize("source", [INNER, ROW, ROWS, SPLIT])
def test_reading_and_writing_keeps_every_region_with_what_is_in_it(source: str) -> None:
    again = write(read(source))
    assert [region.name for region in read_regions(again)] == [region.name for region in read_regions(source)]
    for before, after in zip(read_regions(source), read_regions(again), strict=True):
        assert bare(before.text) == bare(after.text)


@pytest.mark.parametrize("source", [INNER, ROW, ROWS, SPLIT])
def test_no_chain_of_rewrites_breaks_a_region_and_file_level_ones_stay(source: str) -> None:
    top = {region.name: region.text for region in read_regions(source) if not region.indent}
    asked = context(source)
    for step in range(12):
        draft = asyncio.run(Rewrite().propose(replace(asked, step=step)))
        if draft is None:
            break
        regions = {region.name: region.text for region in read_regions(draft.source)}
        assert static_check(draft.source) is None
        assert top.items() <= regions.items()
        asked = replace(context(draft.source), known=asked.known | {Candidate(draft.source, "cpp").id})


@pytest.mark.parametrize("source", [INNER, ROW, ROWS, SPLIT])
def test_tunables_that_a_rewrite_adds_stand_outside_of_regions(source: str) -> None:
    before = {region.name: region.text for region in read_regions(source) if not region.indent}
    for move in CPP_REWRITES.moves(source):
        made = only_whole(CPP_REWRITES.apply(source, move))
        after = {region.name: region.text for region in read_regions(made)}
        assert before.items() <= after.items(), move


def test_so_do_those_of_triton() -> None:
    lines = GEMM.split("\n")
    last = max(number for number, line in enumerate(lines) if "# tune" in line)
    marked = "\n".join([*lines[:last], "# region: numbers", lines[last], "# endregion", *lines[last + 1 :]])
    assert TRITON_REWRITES.moves(marked)
    for move in TRITON_REWRITES.moves(marked):
        (numbers,) = read_regions(TRITON_REWRITES.apply(marked, move))
        assert numbers.text == lines[last] + "\n", move


def test_no_rewrite_changes_protected_text() -> None:
    head, tail = "// licence\nstatic int one() { return 1; }\n\n", '\nextern "C" int other() { return 3; }\n'
    source = f"{head}// {EVOLVE_START}\n{ROWS}// {EVOLVE_END}\n{tail}"
    asked, drafts = context(source), 0
    for step in range(12):
        draft = asyncio.run(Rewrite().propose(replace(asked, step=step)))
        if draft is None:
            break
        drafts += 1
        assert protected_change(source, draft.source) == ""
        asked = replace(context(draft.source), known=asked.known | {Candidate(draft.source, "cpp").id})
    assert drafts
    closed = context(ROWS.replace("void run(", f"// {EVOLVE_START}\n// {EVOLVE_END}\nvoid run("))
    assert asyncio.run(Rewrite().propose(closed)) is None  # there is a move, and it lies outside
