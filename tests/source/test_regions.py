import pytest

from evokernel.languages.text_checks import check_text
from evokernel.source.regions import only_whole, outside, read_regions, with_regions

CPP = """\
#include <cstdint>
// region: pack
static void pack() {
}
// endregion
extern "C" void run() {
    // region: inner loop
    pack();
    // endregion inner loop
}
"""
PYTHON = """\
def run(x, y):
    # region: load
    a = x
    if a:
        a = y
    # endregion
    return a
"""


def test_regions_are_read_in_order_in_every_language() -> None:
    pack, inner = read_regions(CPP)
    assert (pack.name, pack.text, pack.indent) == ("pack", "static void pack() {\n}\n", "")
    assert (inner.name, inner.text, inner.indent) == ("inner loop", "    pack();\n", "    ")
    assert CPP[pack.start : pack.end] == pack.text
    assert [region.name for region in read_regions(PYTHON)] == ["load"]
    assert read_regions("int x;\n") == ()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("// region: a\n// region: b\n// endregion\n// endregion\n", "line 2: region 'b' begins inside region 'a'"),
        ("\n// region: a\nint x;\n", "line 2: region 'a' is never closed"),
        ("# region: a\n# endregion\n# region: a\n# endregion\n", "line 3: there is a region 'a' already"),
        ("// region: a\n// endregion b\n", "line 2: endregion b closes the region 'a'"),
        ("// region:\n// endregion\n", "line 1: '' is no name for a region"),
        ("// region: rows 0..7\n// endregion\n", "is no name for a region"),
    ],
)
def test_what_cannot_be_read_is_a_static_error_that_says_where(source: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_regions(source)
    assert said in str(check_text(source))


@pytest.mark.parametrize("source", [CPP, PYTHON, "#region x\n#endregion\n", "// the region: of it\n", "// endregion\n"])
def test_regions_and_folding_marks_of_editors_are_no_error(source: str) -> None:
    assert check_text(source) is None


def test_contents_take_the_indent_of_their_new_place() -> None:
    (load,) = read_regions(PYTHON)
    moved = with_regions("if 1:\n        # region: load\n        # endregion\n", {"load": load})
    assert moved.splitlines()[2:5] == ["        a = x", "        if a:", "            a = y"]
    (back,) = read_regions(moved)
    assert with_regions(PYTHON, {"load": back}) == PYTHON
    with pytest.raises(KeyError, match="store"):
        with_regions(PYTHON, {"store": load})


def test_outside_is_everything_else() -> None:
    assert outside(PYTHON) == "def run(x, y):\n    # region: load\n    # endregion\n    return a\n"


@pytest.mark.parametrize(
    ("source", "left"),
    [
        (CPP, CPP),
        ("// region: a\nx\n// region: b\ny\n// endregion\n", "x\n// region: b\ny\n// endregion\n"),
        ("// region: a\nx\n// endregion\n// region: a\nx\n// endregion\n", "// region: a\nx\n// endregion\nx\n"),
        ("// endregion\nx\n// region: a\n", "x\n"),
        ("// region: a\nfor (;;) {\n// endregion\n}\n", "for (;;) {\n}\n"),
        ("// region: a\nx\n// endregion b\n", "x\n"),
    ],
)
def test_marks_of_what_is_not_whole_go(source: str, left: str) -> None:
    assert only_whole(source) == left
    read_regions(only_whole(source))
