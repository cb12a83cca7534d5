"""Whatever somebody puts into the inbox is taken for what it is, or refused in words."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evokernel.engine.inbox import read_answer, read_insight, read_source, read_text

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = [
    "source",
    "language",
    "operator",
    "island",
    "parents",
    "inspirations",
    "insights",
    "rationale",
    "model",
    "prompt",
    "predicted_speedup",
    "text",
    "kind",
    "title",
    "candidate",
    "sources",
    "reply",
]


def refusal(read: Callable[[], object]) -> str | None:
    """Return the words of a `ValueError`, or None."""
    try:
        read()
    except ValueError as error:
        return str(error)
    return None


@given(st.dictionaries(st.sampled_from(NAMES), JSON))
def test_any_payload_is_read_or_refused_in_words(payload: dict[str, Any]) -> None:
    assert refusal(lambda: read_source(payload, language="cpp")) != ""
    assert refusal(lambda: read_insight(payload)) != ""
    assert refusal(lambda: read_answer(7, payload)) != ""
    assert refusal(lambda: read_text(payload, "text")) != ""


def test_an_answer_keeps_its_lineage() -> None:
    answer = read_answer(
        3,
        {
            "operator": "mutate",
            "island": "ideas",
            "parents": ["a", "b"],
            "insights": [4, "x"],
            "prompt": [["system", "s"], ["user", "u"]],
            "reply": "r",
        },
    )
    origin = answer.origin(9)
    assert (origin.step, origin.parents, origin.insights) == (9, ("a", "b"), (4,))
    assert [message.text for message in answer.prompt] == ["s", "u"]


def test_a_source_in_another_language_is_refused() -> None:
    with pytest.raises(ValueError, match="this run evolves triton"):
        read_source({"source": "int main() {}", "language": "cpp"}, language="triton")
