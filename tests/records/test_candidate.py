"""What a candidate makes of the text it is given."""

import pytest

from evokernel.records.candidate import Candidate, clean


def test_line_ends_do_not_make_another_candidate() -> None:
    assert Candidate("a\r\nb\rc", "cpp") == Candidate("a\nb\nc\n\n", "cpp")
    assert Candidate("a", "cpp").id != Candidate("a", "triton").id


@pytest.mark.parametrize("text", ["\udcff", "int x;  // \ud800 and \udfff", "\ufeff\udc80 run"])
def test_what_is_no_text_is_a_candidate_all_the_same(text: str) -> None:
    candidate = Candidate(text, "cpp")
    assert candidate.source.encode()
    assert candidate == Candidate(candidate.source, "cpp")
    assert candidate.id != Candidate(text.replace("\udcff", "").replace("\ud800", "").replace("\udc80", ""), "cpp").id


def test_text_that_can_be_written_down_stays_as_it_is() -> None:
    assert clean("naïve \U0001f600 \ufeff") == "naïve \U0001f600 \ufeff"
    assert clean("\udcff") == "\\udcff"
