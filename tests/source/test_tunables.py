import pytest
from hypothesis import given
from hypothesis import strategies as st

from evokernel.source.tunables import read_tunables, skeleton_hash, skeleton_of, with_values

CPP = "constexpr int MR = 8;  // tune: 4 6 8\nconstexpr int NR = 32;  // tune: 16 32\n// tune-where: MR * NR <= 192\n"
PYTHON = "BLOCK_M = 64  # tune: 16 32 64 128\nnum_warps = 4  # tune: 2 4 8\n# tune-where: BLOCK_M >= 16 * num_warps\n"


SWITCHES = "FAST = True  # tune: False True\nconstexpr bool PACKED = false;  // tune: false true\n"


@pytest.mark.parametrize(
    ("source", "names"),
    [(CPP, ["MR", "NR"]), (PYTHON, ["BLOCK_M", "num_warps"]), (SWITCHES, ["FAST", "PACKED"])],
)
def test_tunables_are_the_same_lines_in_every_language(source: str, names: list[str]) -> None:
    space = read_tunables(source)
    assert [tunable.name for tunable in space.tunables] == names
    for point in space.points():
        assert read_tunables(with_values(source, point)).values == point


def test_constraints_keep_points_away() -> None:
    points = list(read_tunables(CPP).points())
    assert {"MR": 8, "NR": 16} in points
    assert {"MR": 8, "NR": 32} not in points


def test_the_value_in_force_is_always_a_choice() -> None:
    assert read_tunables("int A = 5;  // tune: 1 2\n").tunables[0].choices == (1, 2, 5)


def test_a_switch_keeps_the_spelling_of_its_language_and_bends_constraints() -> None:
    source = f"{SWITCHES}int N = 1;  // tune: 1 2\n// tune-where: FAST or N > 1\n"
    assert read_tunables(source).values == {"FAST": 1, "PACKED": 0, "N": 1}
    changed = with_values(source, {"FAST": 0, "PACKED": 1})
    assert "FAST = False " in changed
    assert "PACKED = true;" in changed
    assert skeleton_hash(changed) == skeleton_hash(source)
    assert not read_tunables(changed).allows({"FAST": 0, "PACKED": 1, "N": 1})


@pytest.mark.parametrize("line", ["A = 1  # tune: False True", "A = True  # tune: 0 1", "A = maybe  # tune: False"])
def test_numbers_and_switches_do_not_mix(line: str) -> None:
    assert not read_tunables(f"{line}\n").tunables


@given(st.sampled_from([4, 6, 8]), st.sampled_from([16, 32]))
def test_values_do_not_change_the_skeleton(mr: int, nr: int) -> None:
    assert skeleton_hash(with_values(CPP, {"MR": mr, "NR": nr})) == skeleton_hash(CPP)


def test_ranges_and_text_change_the_skeleton() -> None:
    assert skeleton_hash(CPP.replace("4 6 8", "4 8")) != skeleton_hash(CPP)
    assert "MR = ?" in skeleton_of(CPP)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("int A = 1;  // tune: 1 2\nint A = 2;  // tune: 1 2\n", "twice"),
        ("int A = 1;  // tune: 1 2\n// tune-where: B < 2\n", "not tunables"),
        ("int A = 1;  // tune: 1 2\n// tune-where: A <\n", "not an integer expression"),
        ("int A = 1;  // tune: 1 2\n// tune-where: __import__('os')\n", "tunable|not allowed|not an integer"),
    ],
)
def test_a_malformed_space_is_refused_with_its_reason(source: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        list(read_tunables(source).points())


def test_setting_an_unknown_tunable_is_refused() -> None:
    with pytest.raises(KeyError, match="XX"):
        with_values(CPP, {"XX": 1})
