"""Changes made from two texts, applied to the first, give the second."""

import difflib
from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from operators.llm.replies.patches import PatchError, SearchReplace, apply_edits, apply_hunks, read_edits, read_hunks

LINES = st.lists(
    st.sampled_from(["a", "b", "  c", "", "}", "-x", "+x", "@at", "d ", "d", "\u2028", "=" * 6]), max_size=14
)


def text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def diff(before: list[str], after: list[str], context: int) -> str:
    return text(list(difflib.unified_diff(before, after, "a", "b", lineterm="", n=context)))


def outcome(apply: Callable[[], str]) -> str:
    """What came of it: the text, or two words of the reason."""
    try:
        return apply()
    except PatchError as error:
        return next((words for words in ("places", "same lines") if words in str(error)), str(error))


def blocks(before: list[str], after: list[str]) -> list[SearchReplace]:
    """SEARCH/REPLACE blocks as a careful author would write them: each place widened until it is the only one."""
    made: list[SearchReplace] = []
    for tag, i, j, k, m in difflib.SequenceMatcher(a=before, b=after, autojunk=False).get_opcodes():
        if tag != "equal":
            made.append(_widened(before, after, i, j, k, m))
    return made


def _widened(before: list[str], after: list[str], i: int, j: int, k: int, m: int) -> SearchReplace:
    while True:
        wanted = before[i:j]
        count = sum(before[at : at + len(wanted)] == wanted for at in range(len(before) - len(wanted) + 1))
        if count == 1 and any(line.strip() for line in wanted):
            return SearchReplace(tuple(wanted), tuple(after[k:m]))
        if i > 0 and k > 0 and before[i - 1] == after[k - 1]:
            i, k = i - 1, k - 1
        elif j < len(before) and m < len(after) and before[j] == after[m]:
            j, m = j + 1, m + 1
        else:
            return SearchReplace(tuple(before), tuple(after))


@given(LINES, LINES, st.sampled_from([0, 1, 3]))
def test_a_diff_of_two_texts_makes_the_second_of_the_first(before: list[str], after: list[str], context: int) -> None:
    assume(before != after)
    assert apply_hunks(text(before), read_hunks(diff(before, after, context))) == text(after)


@given(LINES.filter(lambda lines: any(line.strip() for line in lines)), LINES, LINES)
def test_a_diff_without_numbers_gives_the_second_text_or_says_why_not(
    before: list[str], after: list[str], above: list[str]
) -> None:
    """Where the lines have moved, a hunk is put at its only place or nowhere."""
    assume(before != after)
    moved, wanted = text([*above, *before]), text([*above, *after])
    patch = "\n".join("@@ @@" if line.startswith("@@ ") else line for line in diff(before, after, 99).split("\n"))
    assert outcome(lambda: apply_hunks(moved, read_hunks(patch))) in (wanted, "places")


@given(LINES, LINES)
def test_blocks_made_of_two_texts_make_the_second_of_the_first(before: list[str], after: list[str]) -> None:
    assume(before != after)
    edits = blocks(before, after)
    assume(all(any(line.strip() for line in edit.search) for edit in edits))  # nothing to hold on to
    assume(len(edits) == 1 or all(edit.search != tuple(before) for edit in edits))
    made = outcome(lambda: apply_edits(text(before), edits))
    assert made in (text(after), "same lines")  # blocks may have been widened into each other


@given(LINES, LINES)
def test_blocks_are_read_as_they_are_written(search: list[str], replace: list[str]) -> None:
    written = text(["<<<<<<< SEARCH", *search, "=======", *replace, ">>>>>>> REPLACE"])
    assert read_edits(f"some words\n{written}\n{written}") == 2 * [SearchReplace(tuple(search), tuple(replace))]


def test_a_line_that_only_lends_its_place_keeps_the_blanks_at_its_end() -> None:
    patch = "@@ -1,2 +1,2 @@\n keep\n-old\n+new\n"
    assert apply_hunks("keep   \nold  \n", read_hunks(patch)) == "keep   \nnew\n"


def test_nothing_is_removed_when_lines_are_added_at_a_number() -> None:
    assert apply_hunks("a\nb\n", read_hunks("@@ -1,0 +2,1 @@\n+x\n")) == "a\nx\nb\n"
    assert apply_hunks("a\n", read_hunks("@@ -0,0 +1,1 @@\n+x\n")) == "x\na\n"
    with pytest.raises(PatchError, match="does not say where"):
        apply_hunks("a\n", read_hunks("@@ -9,0 +9,1 @@\n+x\n"))


def test_a_block_that_deletes_leaves_no_empty_line() -> None:
    assert apply_edits("a\nb\nc\n", [SearchReplace(("b",), ())]) == "a\nc\n"
    assert apply_edits("a\nb\nc\n", [SearchReplace(("b",), ("",))]) == "a\n\nc\n"


def test_a_kernel_in_a_thousand_pieces_is_refused() -> None:
    with pytest.raises(PatchError, match="written anew"):
        read_edits("<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n" * 1000)
