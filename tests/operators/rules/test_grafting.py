"""Which regions may be swapped: what they need must come along or be there, and what needed them must go on."""

import asyncio
import re
from dataclasses import replace

import pytest

from evokernel.languages.text_checks import check_text
from evokernel.records.candidate import Candidate
from evokernel.records.fitness import Elite, Fitness
from evokernel.records.step import Context, Draft
from evokernel.source.regions import outside, read_regions
from evokernel.source.tunables import read_tunables, skeleton_hash
from operators.rules.graft import Graft
from operators.rules.grafting import grafts
from tests.support.engine import TASK
from tests.support.skeletons import CUDA, PLAIN_TILES, ROWS, SPLIT, TILES


def names(host: str, donor: str, language: str = "cpp") -> list[tuple[str, ...]]:
    return [graft.regions for graft in grafts(host, donor, language)]


def elite(source: str, language: str = "cpp") -> Elite:
    candidate = Candidate(source, language)
    return Elite(candidate, Fitness(0.0, 0.0), {}, 1, candidate.id, skeleton_hash(candidate.source))


def context(*sources: str, language: str = "cpp") -> Context:
    parents = tuple(elite(source, language) for source in sources)
    return Context(
        step=1,
        seed=0,
        island="one",
        task=TASK,
        language=language,
        threads=1,
        parents=parents,
        siblings=(),
        known=frozenset(parent.candidate.id for parent in parents),
        tried=frozenset(),
        credit={},
        device_sheet={},
    )


def propose(asked: Context) -> Draft | None:
    return asyncio.run(Graft().propose(asked))


def test_a_region_brings_its_tunables_and_everything_else_stays() -> None:
    draft = propose(context(ROWS, SPLIT))
    assert draft is not None
    assert draft.rationale == f"graft: region dot from {Candidate(SPLIT, 'cpp').id[:8]}"
    assert draft.parents == (Candidate(ROWS, "cpp").id, Candidate(SPLIT, "cpp").id)
    assert set(read_tunables(draft.source).values) == {"ROWS", "SUMS"}
    assert outside(draft.source) == outside(ROWS)
    dot, store = read_regions(draft.source)
    assert (dot.text, store.text) == (read_regions(SPLIT)[0].text, read_regions(ROWS)[1].text)
    assert check_text(draft.source) is None


def test_a_region_that_needs_what_the_host_lacks_is_not_offered() -> None:
    assert names(ROWS, SPLIT) == [("dot",)]  # `store` of SPLIT reads `row`
    same = SPLIT.replace("dot(row,", "dot(a + i * K,")
    assert names(ROWS, same) == [("dot",)]  # and here it is that of ROWS
    other = SPLIT.replace("dot(row,", "0.0f + dot(a + i * K,")
    assert names(ROWS, other) == [("dot",), ("store",), ("dot", "store")]


def test_regions_that_need_each_other_go_together() -> None:
    donor = (
        SPLIT.replace("dot", "product")
        .replace("region: product", "region: dot")
        .replace("product(row", "product(a + i * K")
    )
    assert names(ROWS, donor) == [("dot", "store")]


def test_a_region_that_others_need_is_not_lost() -> None:
    assert names(SPLIT, ROWS) == [("dot",), ("store",), ("dot", "store")]
    assert names(
        SPLIT.replace("const float* row", "constexpr int64_t two = SUMS;\n        const float* row"), ROWS
    ) == [("store",)]


@pytest.mark.parametrize(
    "changes",
    [
        {"int64_t K)": "int64_t K, int64_t more)", "N, K);": "N, K, 0);"},  # another number of arguments
        {"SUMS": "ROWS"},  # a name that is taken
        {"float sum = 0.0f;": "float sum = std::fma(0.0f, 0.0f, 0.0f);", "#include": "#include <cmath>\n#include"},
        {"return sum;\n}\n// endregion\n": "return sum;\n// endregion\n}\n"},  # brackets
        {"dot(": "scalar("},  # nobody declares what the host calls
    ],
)
def test_a_seam_that_cannot_hold_is_not_offered(changes: dict[str, str]) -> None:
    donor = SPLIT
    for old, new in changes.items():
        assert old in donor
        donor = donor.replace(old, new, -1 if old not in ("int64_t K)", "#include") else 1)
    assert ("dot",) not in names(ROWS, donor)


def test_a_header_that_is_there_will_do() -> None:
    donor = "#include <cmath>\n" + SPLIT.replace("float sum = 0.0f;", "float sum = std::fma(0.0f, 0.0f, 0.0f);")
    assert names("#include <cmath>\n" + ROWS, donor) == [("dot",)]


TUNED = """\
constexpr int W = 4;  // tune: 2 4 8
constexpr int V = 2;  // tune: 1 2
{where}// region: body
static int body() {{ return {body}; }}
// endregion
extern "C" void run(int* y) {{ y[0] = body(){more}; }}
"""


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ({}, True),
        ({"W": "constexpr int W = 4;  // tune: 4 8"}, True),  # fewer values than the region can take
        ({"W": "constexpr int W = 4;  // tune: 4 16"}, False),  # the region never had 16
        ({"W": "constexpr int W = 4;"}, False),  # no tunable
        ({"W": ""}, False),
        ({"where": ""}, False),  # the region may count on the constraint
        ({"where": "// tune-where: W*V<=8\n"}, True),
    ],
)
def test_a_tunable_of_the_host_must_suit_the_region(host: dict[str, str], allowed: bool) -> None:
    donor = TUNED.format(where="// tune-where: W * V <= 8\n", body="W", more="")
    where = (
        host.get("where", "// tune-where: W * V <= 8\n") if host.get("W", "x").endswith(tuple("x0123456789")) else ""
    )
    source = TUNED.format(where=where, body="1", more=" + V")
    if "W" in host:
        source = source.replace("constexpr int W = 4;  // tune: 2 4 8", host["W"])
    assert (("body",) in names(source, donor)) == allowed


def test_in_python_names_are_looked_up_where_the_region_comes_to_stand() -> None:
    assert names(TILES, PLAIN_TILES, "triton") == [("order",), ("work",), ("order", "work")]
    limited = PLAIN_TILES.replace("inside = offsets < n", "inside = offsets < limit")
    limited = limited.replace("columns, BLOCK: tl", "columns, limit, BLOCK: tl").replace("1, BLOCK)", "1, n, BLOCK)")
    assert names(TILES, limited, "triton") == [("order",)]
    (child,) = (graft.source for graft in grafts(PLAIN_TILES, TILES, "triton") if graft.regions == ("work",))
    assert "        value = tl.load(x + offsets, mask=offsets < n)\n        value = value * 2\n        # end" in child
    wider = PLAIN_TILES.replace("place(pid, width)", "place(pid, width, more)").replace(
        "(0), columns)", "(0), columns, 1)"
    )
    assert names(TILES, wider, "triton") == [("work",)]


def test_what_the_module_uses_afterwards_must_still_be_there() -> None:
    host = TILES.replace("(row + column)", "(row + column) * GROUP")
    assert ("order",) not in names(host, PLAIN_TILES, "triton")


def test_in_cuda_the_string_is_read_and_its_macros_are_known() -> None:
    other = CUDA.replace("// region", "__device__ float unused(float x) { return x; }\n// region")
    taken = other.replace("return 2 * x[i];", "return x[i] + x[i];")
    assert names(CUDA, taken, "cuda") == [("body",)]
    assert names(CUDA, other.replace("return 2 * x[i];", "return 2 * x[i] * THREADS;"), "cuda") == [("body",)]
    assert names(CUDA, other.replace("return 2 * x[i];", "return unused(x[i]);"), "cuda") == []
    more = other.replace("THREADS=THREADS,", "THREADS=THREADS,\n    FACTOR=2,").replace("return 2", "return FACTOR")
    assert names(CUDA, more, "cuda") == []


def test_what_has_no_regions_or_unreadable_ones_takes_and_gives_nothing() -> None:
    plain = re.sub(r" *// (end)?region.*\n", "", SPLIT)
    for other in (
        plain,
        SPLIT.replace("// endregion", "//", 1),
        SPLIT,
        "",
        "// region: dot\n// endregion\n" * 2,
    ):
        assert names(ROWS if other != SPLIT else SPLIT, other) == []
        assert names(other, SPLIT) == []


def test_it_says_when_nothing_is_left_and_never_asks_for_more() -> None:
    asked, seen = context(SPLIT, ROWS), set[str]()
    while (draft := propose(replace(asked, step=len(seen), known=asked.known | seen))) is not None:
        assert Graft().suits(*asked.parents, known=asked.known | seen)
        seen.add(Candidate(draft.source, "cpp").id)
    assert len(seen) == 3
    assert not Graft().suits(*asked.parents, known=asked.known | seen)
    assert propose(replace(asked, parents=asked.parents[:1])) is None


def test_a_region_in_protected_text_stays() -> None:
    guarded = ROWS.replace("#include", "// EVOLVE-BLOCK-START\n// EVOLVE-BLOCK-END\n#include", 1)
    assert names(guarded, SPLIT)
    assert propose(context(guarded, SPLIT)) is None
    assert propose(context("// EVOLVE-BLOCK-START\n" + ROWS, SPLIT)) is not None
