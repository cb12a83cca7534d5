"""Regions of any two sources: what is put together reads back, touches nothing else, and can be undone."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from evokernel.source.regions import Region, only_whole, outside, read_regions, with_regions
from operators.rules.grafting import grafts

NAMES = ("load", "pack", "store tile")
LINES = st.sampled_from(
    [
        "x = 1",
        "if a:",
        "    y = x",
        "",
        "        z",
        "}",
        "{",
        "// a comment",
        "# region of it",
        "#pragma unroll",
        "\tq",
    ]
)
BODIES = st.lists(LINES, max_size=4)
INDENTS = st.sampled_from(["", "    ", "\t"])
MARKS = st.sampled_from(["//", "#"])


@st.composite
def sources(draw: st.DrawFn) -> str:
    """A text with regions of some of the names, in any order, and other lines around them."""
    lines = draw(BODIES)
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True)):
        indent, mark = draw(INDENTS), draw(MARKS)
        inside = [indent + line for line in draw(BODIES)]
        lines += [f"{indent}{mark} region: {name}", *inside, f"{indent}{mark} endregion", *draw(BODIES)]
    return "\n".join(lines) + "\n"


def taken_from(donor: str, host: str) -> dict[str, Region]:
    own = {region.name for region in read_regions(host)}
    return {region.name: region for region in read_regions(donor) if region.name in own}


@given(sources(), sources(), st.sets(st.sampled_from(NAMES)))
def test_a_graft_reads_back_touches_nothing_else_and_can_be_undone(host: str, donor: str, wanted: set[str]) -> None:
    taken = {name: region for name, region in taken_from(donor, host).items() if name in wanted}
    child = with_regions(host, taken)
    assert [region.name for region in read_regions(child)] == [region.name for region in read_regions(host)]
    assert outside(child) == outside(host)
    before, after = ({region.name: region for region in read_regions(text)} for text in (host, child))
    for name, region in after.items():
        if name in taken:
            told = [[line.strip() for line in each.text.split("\n")] for each in (region, taken[name])]
            assert told[0] == told[1]
        else:
            assert region.text == before[name].text
    assert with_regions(child, {name: before[name] for name in taken}) == host


@given(sources(), sources(), st.sampled_from(["cpp", "triton", "cuda"]))
def test_what_is_offered_is_new_differs_in_its_regions_only_and_never_raises(host: str, donor: str, kind: str) -> None:
    offered = grafts(host, donor, kind)
    assert len({graft.id for graft in offered}) == len(offered)
    for graft in offered:
        assert graft.source not in (host, donor)
        assert outside(graft.source) == outside(host.rstrip("\n") + "\n")
    assert grafts(host, host, kind) == ()


@given(
    st.lists(
        st.sampled_from([*(f"// region: {name}" for name in "ab"), "// endregion", "// endregion a", "x", "{", "}"])
    )
)
@settings(max_examples=300)
def test_whatever_becomes_of_the_marks_what_is_left_of_them_can_be_read(lines: list[str]) -> None:
    source = "\n".join(lines)
    left = only_whole(source)
    read_regions(left)
    assert re.sub(r"// .*\n?", "", left) == re.sub(r"// .*\n?", "", source)
    assert only_whole(left) == left


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        regions = read_regions(text)
    except ValueError:
        assert grafts(text, text + "x", "cpp") == ()
    else:
        assert with_regions(text, {region.name: region for region in regions}) == text
        assert only_whole(text).count("endregion") <= text.count("endregion")
