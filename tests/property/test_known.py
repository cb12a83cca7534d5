"""The ids that a run knows are a set of texts, however little memory they take."""

import hashlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from islands.known import Known

FEW = [f"{number:016x}" for number in (0, 1, 255, 1 << 53, (1 << 53) + 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)]
NO_IDS = (
    "",
    "1",
    "0" * 15,
    "0" * 17,
    "0" * 15 + "A",
    " " + "0" * 15,
    "00 " + "0" * 13,
    "0x" + "0" * 14,
    "-" + "0" * 15,
)

ids = st.sampled_from(FEW) | st.integers(0, 2**64 - 1).map("{:016x}".format)


def made_of(names):
    return [hashlib.sha256(name.encode()).hexdigest()[:16] for name in names]


@given(st.lists(st.lists(ids)), ids)
def test_it_is_the_set_of_what_was_added(batches, other):
    known, plain = Known(), set()
    for batch in batches:
        for name in batch:
            known.add(name)
            plain.add(name)
            assert name in known
        assert known.text() == "".join(sorted(plain))
        assert (other in known) == (other in plain)
    assert list(known) == sorted(plain)
    assert len(known) == len(plain)
    assert known == plain
    assert Known.from_text(known.text()) == known


def test_a_long_run_forgets_none():
    names = made_of(str(number) for number in range(20_000))
    known = Known()
    for name in names:
        assert name not in known
        known.add(name)
        assert name in known
        known.add(random.Random(name).choice(names[: len(known)]))
    assert len(known) == len(names)
    assert all(name in known for name in names)
    assert not any(name in known for name in made_of(f"other {number}" for number in range(20_000)))


@pytest.mark.parametrize("name", NO_IDS)
def test_what_is_no_id_is_not_known_and_cannot_be_added(name):
    known = Known(FEW)
    assert name not in known
    with pytest.raises(ValueError, match="16 hexadecimal digits"):
        known.add(name)
    assert list(known) == FEW


@pytest.mark.parametrize("text", ["0", FEW[0] * 2, FEW[1] + FEW[0], FEW[0] + "00"])
def test_a_damaged_text_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        Known.from_text(text)


def test_it_works_as_other_sets_do():
    known = Known(FEW[:2])
    assert known | {FEW[2]} == set(FEW[:3])
    assert 7 not in known
    assert known == frozenset(FEW[:2])
    assert len(Known()) == 0
    assert Known().text() == ""
