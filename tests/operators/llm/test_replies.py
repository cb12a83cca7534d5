"""What is made of replies: every way in which models write code, and every reason for which a reply is of no use."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evokernel.task import Role, Scalar, Signature, Tensor
from operators.llm.replies import (
    UnreadableReply,
    ends_open,
    join,
    read_idea,
    read_kernel,
    read_note,
    read_prediction,
    tidy,
)
from operators.llm.replies.entry import entry_problem
from operators.llm.replies.kernels import ReplyExpectation
from operators.llm.replies.words import split

SIGNATURE = Signature((Tensor("x", ("N",)),), (Scalar("N"),), (Tensor("y", ("N",), role=Role.OUTPUT),))
CPP = """\
#include <cstdint>

extern "C" void run(const float* x, int64_t N, float* y) {
    for (int64_t i = 0; i < N; ++i) y[i] = x[i];
}
"""
FASTER = CPP.replace("    for", "    #pragma GCC ivdep\n    for")
PYTHON = '''\
"""A copy."""

import triton


def run(x, N, y):
    y.copy_(x)
'''


def read(
    reply: str, *, language: str = "cpp", original: str | None = CPP, whole: bool = True, edits: bool = True
) -> str:
    return read_kernel(tidy(reply), ReplyExpectation(language, SIGNATURE, original, whole=whole, edits=edits))


def reason(
    reply: str, *, language: str = "cpp", original: str | None = CPP, edits: bool = True, whole: bool = True
) -> str:
    with pytest.raises(UnreadableReply) as caught:
        read(reply, language=language, original=original, edits=edits, whole=whole)
    return str(caught.value)


def block(code: str, tag: str = "cpp", marks: str = "```") -> str:
    return f"{marks}{tag}\n{code}{marks}\n"


def edit(search: str, replace: str) -> str:
    return f"<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n"


# ------------------------------------------------------------------------------------------------- whole files


@pytest.mark.parametrize(
    "reply",
    [
        f"IDEA: x\n{block(FASTER)}",
        block(FASTER, "c++"),
        block(FASTER, ""),
        block(FASTER, marks="~~~~"),
        block(FASTER).replace("\n", "\r\n"),
        block(FASTER).removesuffix("```\n"),  # the last fence forgotten
        "  - in a list:\n" + "\n".join(f"    {line}" for line in block(FASTER).split("\n")),
        f"Before it was:\n{block(CPP)}\nNow:\n{block(FASTER)}\nBuild with:\n{block('make -j', 'sh')}",
        f"{block(FASTER)}\nThis is better than:\n{block(CPP)}",
        f"<think>\n{block('int wrong;')}\n</think>\n{block(FASTER)}",
        f"hidden thoughts\n</think>\n{block(FASTER)}",
        f"IDEA: hint the compiler\nPREDICTED: 1.2x\n\n{FASTER}",  # no fence at all
        f"Here is the kernel:\n\n{FASTER}\nIt should be faster now.",
    ],
)
def test_a_whole_file_is_found_however_it_is_wrapped(reply: str) -> None:
    assert read(reply) == FASTER


def test_python_is_found_without_a_fence_and_freed_of_the_words_around_it() -> None:
    reply = f"Sure, here you go:\n\n{PYTHON}\nThis copies x to y.\n\nEnjoy!"
    assert read(reply, language="triton", original=None).rstrip() == PYTHON.rstrip()


def test_among_blocks_the_one_with_the_entry_point_counts_whatever_its_size() -> None:
    test = "# a test\n" + "assert True\n" * 100
    assert read(block(test, "python") + block(PYTHON, "python"), language="cuda", original=None) == PYTHON


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("", "empty"),
        ("  \n\t\n", "empty"),
        ("<think>\nlet me see", "still thinking"),
        ("I'm sorry, but I can't help with that.", "the model declines: I'm sorry"),
        ("The kernel looks fine to me.", "no code that defines `run`; it begins with: The kernel looks"),
        (block(CPP), "unchanged"),
        (block(CPP.replace("run", "main")), 'does not define `extern "C" void run(...)`'),
        (block(CPP.replace('extern "C" ', "")), 'is not `extern "C"`'),
        (block(CPP.replace("int64_t N, ", "int64_t N, int64_t M, ")), "takes 4 arguments, and this task's has 3"),
        (block("import triton\n", "python"), "does not define"),
        (block(FASTER.replace("    for", "    // ... rest of the code unchanged ...\n    for")), "stands for what was"),
        (block(FASTER.replace("    for", "    ...\n    for")), "stands for what was"),
        (
            block(FASTER.replace("    for", "    // (the rest of the function is unchanged)\n    for")),
            "stands for what",
        ),
        (block(FASTER.replace("    for", "    // same as before ...\n    for")), "stands for what was left out"),
    ],
)
def test_what_is_no_kernel_is_refused_with_the_exact_reason(reply: str, why: str) -> None:
    assert why in reason(reply)


@pytest.mark.parametrize(
    "line",
    [
        "// the remaining elements are handled below",
        "template <typename... T> void f(T... t);",
        "// unrolled by 4, the rest goes one by one",
        "// i, i + 1, ..., i + 7 at once",
    ],
)
def test_an_honest_comment_is_no_placeholder(line: str) -> None:
    source = f"{line}\n{CPP}"
    assert read(block(source)) == source


def test_a_placeholder_that_the_kernel_had_before_is_no_reason() -> None:
    original = f"// ...\n{CPP}"
    assert read(block(original.replace("i = 0", "i = 1")), original=original)


@pytest.mark.parametrize(
    ("source", "language", "problem"),
    [
        (PYTHON, "triton", None),
        ("def run(x, N, y, extra=1): pass", "triton", None),
        ("def run(*args): pass", "cuda", None),
        ("def run(x, y): pass", "triton", "its `run` takes 2 arguments, and this task's has 3"),
        ("class A:\n    def run(x, N, y): pass", "triton", "it does not define `run`"),
        ("def run(x, N, y:\n", "triton", None),  # left to the compiler
        ("x = (", "triton", "it does not define `run`"),
        ('extern "C" { void run(const float* x, int64_t N, float* y); }', "cpp", None),
        ('extern "C" void run(ARGUMENTS) {}', "cpp", None),
        ('// extern "C" void run(a, b, c)', "cpp", 'it does not define `extern "C" void run(...)`'),
        ("fn run()", "rust", None),
        ("fn main()", "rust", "it does not define `run`"),
    ],
)
def test_the_entry_point_is_told_from_others(source: str, language: str, problem: str | None) -> None:
    assert entry_problem(source, language, SIGNATURE) == problem


# ------------------------------------------------------------------------------------------------------- changes

OLD = "    for (int64_t i = 0; i < N; ++i) y[i] = x[i];"
NEW = "    for (int64_t i = 0; i < N; ++i) y[i] = 1 * x[i];"
CHANGE = edit(OLD, NEW)
CHANGED = CPP.replace("= x[i]", "= 1 * x[i]")
DIFF = """\
--- a/kernel.cpp
+++ b/kernel.cpp
@@ -3,3 +3,3 @@
 extern "C" void run(const float* x, int64_t N, float* y) {
-    for (int64_t i = 0; i < N; ++i) y[i] = x[i];
+    for (int64_t i = 0; i < N; ++i) y[i] = 1 * x[i];
 }
"""


@pytest.mark.parametrize(
    "reply",
    [
        f"IDEA: x\nPREDICTED: 1.1x\n\n{CHANGE}",
        block(CHANGE, ""),
        CHANGE.replace("\n", "\r\n"),
        CHANGE.replace("x[i];\n=======", "x[i];   \n======="),  # a blank at the end of a line
        CHANGE.replace("<<<<<<<", "<<<<<<").replace(">>>>>>>", ">>>>>>>>"),
        edit("y[i] = x[i];", "y[i] = 1 * x[i];"),  # part of a line
        edit("```cpp\n" + OLD + "\n```", "```\n" + NEW + "\n```"),  # a fence around each part
        edit("y[i] = x[i];", "y[i] = 2 * x[i];") + edit("y[i] = 2 * x[i];", "y[i] = 1 * x[i];"),  # one upon the other
        block(DIFF, "diff"),
        DIFF,
        block(DIFF.replace("@@ -3,3 +3,3 @@", "@@ -90,7 +91,7 @@"), "diff"),  # wrong numbers
        block(DIFF.replace("@@ -3,3 +3,3 @@", "@@ ... @@"), "patch"),
        block(DIFF + "\n", "diff"),
        block(DIFF.partition("+++ b/kernel.cpp\n")[2], ""),
    ],
)  # fmt: skip
def test_changes_are_applied_however_they_are_written(reply: str) -> None:
    assert read(reply) == CHANGED


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (edit("int nowhere;", "x"), "block 1: its SEARCH text is not in the kernel; it begins with: int nowhere;"),
        (CHANGE + edit("int nowhere;", "x"), "block 2: its SEARCH text is not in the kernel"),
        (edit("int64_t", "long"), "not in the kernel"),
        (edit("", "x"), "block 1 has an empty SEARCH text"),
        (CHANGE.replace(">>>>>>> REPLACE\n", ""), "does not end with a line >>>>>>> REPLACE"),
        (CHANGE.replace("=======\n", ""), "no line of seven = between"),
        (edit("}", "}"), "unchanged"),
        (CHANGE + edit("#include <cstdint>", "// ... existing includes ..."), "stands for what was left out"),
        (edit('extern "C" void run', 'extern "C" void walk'), "does not define"),
        (block(DIFF.replace("y[i] = x[i]", "z[i] = x[i]"), "diff"), "hunk 1: its lines are not in the kernel"),
        (block("@@ -1 +1 @@\n*x\n+y\n", "diff"), "a line begins with none of blank, + and -"),
        (block("only words\n", "diff"), "no line that begins with @@"),
        (block("@@ @@\n+int a;\n", "diff"), "only adds lines and does not say where"),
        (block(DIFF + DIFF, "diff"), "more than one file"),
    ],
)
def test_changes_that_do_not_fit_are_refused_as_a_whole(reply: str, why: str) -> None:
    assert why in reason(reply)


def test_a_place_that_is_not_the_only_one_is_refused_with_their_number() -> None:
    twice = CPP + "int a;\nint b;\nint a;\n"
    assert "is there 2 times" in reason(edit("int a;", "int c;"), original=twice)
    assert "fits at 2 places" in reason(block("@@ @@\n-int a;\n+int c;\n", "diff"), original=twice)
    assert read(edit("int b;\nint a;", "int c;"), original=twice).endswith("int a;\nint c;\n")


def test_blocks_that_overlap_are_refused() -> None:
    three = CPP + "int a;\nint b;\nint c;\n"
    assert "blocks 1 and 2 change the same lines" in reason(
        edit("int a;\nint b;", "x") + edit("int b;\nint c;", "y"), original=three
    )


def test_changes_are_refused_where_there_is_nothing_to_change_and_files_where_changes_are_due() -> None:
    assert "nothing to apply them to" in reason(CHANGE, original=None)
    assert "nothing to apply them to" in reason(CHANGE, edits=False)
    assert "holds no SEARCH/REPLACE blocks" in reason(block(FASTER), whole=False)


# --------------------------------------------------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("PREDICTED: 1.15x", 1.15),
        ("**PREDICTED:** 1.15×", 1.15),
        ("predicted: about 2", 2.0),
        ("PREDICTED: +15 %", 1.15),
        ("- PREDICTED: 1.3x over kernel 1", 1.3),
        ("PREDICTED: a lot", None),
        ("PREDICTED: 0x", None),
        ("PREDICTED: 99999999999x", None),
        ("I predicted: 3x", None),
        ("", None),
    ],
)
def test_predictions(line: str, value: float | None) -> None:
    found = read_prediction(f"IDEA: x\n{line}\n")
    assert found == (pytest.approx(value) if value is not None else None)


@pytest.mark.parametrize(
    ("text", "idea"),
    [
        ("IDEA: pack b once", "pack b once"),
        ("**IDEA**: pack\x1b[31m b", "pack [31m b"),
        ("## Idea: pack b", "pack b"),
        ("PREDICTED: 2x\n\nI pack b once.\nIt helps.", "I pack b once."),
        ("Ok.", "no reason was given"),
        ("IDEA: " + "very " * 100, ("very " * 100)[:397].rstrip() + "..."),
    ],
)
def test_ideas(text: str, idea: str) -> None:
    assert read_idea(text) == idea


def test_notes() -> None:
    note = read_note("TITLE: Split K\nPREDICTED: 1.4x\n\n1. Two programs.\n2. Add.\n")
    assert (note.title, note.text, note.predicted_speedup) == ("Split K", "1. Two programs.\n2. Add.", 1.4)
    assert read_note("# Split K\n\nTwo programs.").title == "Split K"
    assert len(read_note("TITLE: x\n" + "y" * 100_000).text) < 13_000
    for text, why in [
        ("TITLE: only this", "no text under a title"),
        ("I cannot help.\nSorry.", "declines"),
        ("*", "no title"),
    ]:
        with pytest.raises(UnreadableReply, match=why):
            read_note(text)


def test_characters_that_cannot_be_stored_are_replaced() -> None:
    assert tidy("a\ud800b\0c\r\nd") == "a?b\ufffdc\nd"


@pytest.mark.parametrize(
    ("first", "more", "whole"),
    [
        ("int a", " = 1;", "int a = 1;"),
        ("x\nfloat sum = 0.0", "float sum = 0.0f;\ny", "x\nfloat sum = 0.0f;\ny"),  # the last line again
        ("one two three four five\nsix", "three four five\nsix seven", "one two three four five\nsix seven"),
        ("```cpp\nint a;\n", "```cpp\nint b;\n```", "```cpp\nint a;\nint b;\n```"),  # the fence again
        (f"IDEA: x\n```cpp\n{CPP[:60]}", f"```cpp\n{CPP}```", f"IDEA: x\n```cpp\n{CPP}```"),  # all of it again
        ("a }", "}", "a }}"),  # too short to be a repetition
    ],
)
def test_a_reply_that_was_cut_off_is_joined_without_repetition(first: str, more: str, whole: str) -> None:
    assert join(first, more) == whole


def test_a_reply_ends_open_inside_a_fence_or_an_edit() -> None:
    assert ends_open("```cpp\nint a;\n")
    assert ends_open(CHANGE.partition("=======")[0])
    assert not ends_open(block(CPP))
    assert not ends_open(CHANGE)


# ---------------------------------------------------------------------------------------------------- any text

PIECES = st.sampled_from(
    [
        *("```", "```cpp", "~~~", "<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE", "@@ -1,2 +3 @@", "@@", "--- a"),
        *("+++ b", "+x", "-x", " x", "", "IDEA: i", "PREDICTED: 9", "TITLE: t", "<think>", "</think>", "..."),
        *("def run(x, N, y):", "    pass", "'\\d'", 'extern "C" void run(', "int a, int b, int c) {", "}"),
        *("\0", "\ud800", "\u2028", "\x0c", "\r"),
    ]
)
TEXTS = st.one_of(st.text(), st.lists(st.one_of(PIECES, st.text(max_size=8)), max_size=30).map("\n".join))


def outcome(made: Callable[[], str]) -> str:
    """What came of it: the text, or the reason why there is none."""
    try:
        return made()
    except UnreadableReply as unread:
        return f"refused: {unread}"


@given(TEXTS, st.sampled_from(["cpp", "triton", "cuda", "other"]), st.sampled_from([None, CPP, PYTHON]))
def test_any_text_is_a_kernel_or_gives_a_reason(reply: str, language: str, original: str | None) -> None:
    made = outcome(lambda: read(reply, language=language, original=original))
    assert made.encode()
    assert made != original
    assert made not in ("refused: ", "\n")


@given(TEXTS)
def test_any_text_is_a_note_or_gives_a_reason(reply: str) -> None:
    assert outcome(lambda: read_note(tidy(reply)).title).strip()
    assert outcome(lambda: read_note(tidy(reply)).text).encode().strip()
    assert len(outcome(lambda: read_idea(split(tidy(reply))[1]))) <= 200


@given(TEXTS, TEXTS)
def test_any_two_halves_can_be_joined(first: str, more: str) -> None:
    assert len(join(first, more)) <= len(first) + len(more)
    assert ends_open(first) in (True, False)


@pytest.mark.parametrize("characters", [1_000_000, 2_000_000])
@pytest.mark.parametrize(
    "unit",
    [
        "words ",
        "```\n",
        "<think>",
        "*",
        "(",
        "words\n\n",
        "<<<<<<< SEARCH\n",
        edit("x", "y"),
        "@@ @@\n-x\n+y\n",
        "`",
        " ",
    ],
    ids=range(11),
)
def test_megabytes_of_nothing_are_refused(unit: str, characters: int) -> None:
    reply = "def run(x, N, y):\n    pass\n\n" + unit * (characters // len(unit)) + "x"
    assert outcome(lambda: read(reply, language="triton", original=PYTHON)).startswith("refused: ")
    assert ends_open(reply) in (True, False)
    assert len(read_idea(reply)) <= 200
