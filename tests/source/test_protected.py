"""Protected text: what lies outside of the blocks to evolve."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evokernel.source.protected import END, START, protected_change, protected_text

SOURCE = f"""#include <cmath>
// {START}
inner one
// {END}
glue();
  # {START} of the second
inner two
# {END}
"""
MARKS = [f"// {START}\n", f"// {END}\n", "a\n", "b\n", f"x {END} y {START}\n", "\n", "  \n"]
sources = st.lists(st.sampled_from(MARKS), max_size=12).map("".join)


def test_a_source_without_blocks_protects_nothing() -> None:
    assert protected_text("a\nb\n") == ()
    assert protected_change("a\n", f"// {START}\n") == ""


def test_what_is_inside_may_change_and_the_rest_may_not() -> None:
    assert len(protected_text(SOURCE)) == 3
    assert protected_change(SOURCE, SOURCE.replace("inner one\n", "new\nlines\n").replace("inner two\n", "")) == ""
    assert protected_change(SOURCE, SOURCE.replace("glue();", "glue(1);")) == "glue();"
    assert protected_change(SOURCE, "other\n" + SOURCE) == "#include <cmath>"
    assert protected_change(SOURCE, SOURCE + "more\n") == "more"


@pytest.mark.parametrize(
    "changed",
    [
        SOURCE.replace("inner one\n", f"// {END}\nmore glue\n// {START}\n"),  # a block that is split
        SOURCE.replace(f"// {END}\n", "", 1),  # two blocks joined
        SOURCE.replace(START, "START"),  # blocks taken away
        SOURCE.replace("of the second", "of the third"),
        SOURCE[: SOURCE.index("glue")],
        SOURCE.replace("glue();\n", "glue();\n \nevil();\n"),
        SOURCE + "  \nevil();\n",
        "",
    ],
)
def test_marks_are_protected_too(changed: str) -> None:
    assert protected_change(SOURCE, changed)


def test_a_block_without_an_end_reaches_to_the_end() -> None:
    assert protected_text(f"a\n{START}\nb\n{END}x\n{START}\nc\n") == (f"a\n{START}\n", f"{END}x\n{START}\n")


@given(sources, sources)
def test_sources_with_equal_protected_text_may_follow_each_other(before: str, after: str) -> None:
    same = protected_text(before) in ((), protected_text(after))
    assert (protected_change(before, after) == "") == same
    assert protected_change(before, before) == ""


@given(sources, st.lists(st.sampled_from(["a\n", "b\n", f"{START}\n"])).map("".join))
def test_lines_inside_of_a_block_may_be_anything_but_its_end(before: str, inner: str) -> None:
    head, mark, rest = before.partition(f"// {START}\n")
    if mark and not head.count(START):
        assert protected_change(before, head + mark + inner + rest) == ""
