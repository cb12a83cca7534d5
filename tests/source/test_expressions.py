import pytest
from hypothesis import given
from hypothesis import strategies as st

from evokernel.source.expressions import evaluate, names_in


@given(st.integers(-999, 999), st.integers(-999, 999), st.integers(1, 99))
def test_arithmetic_is_python_integer_arithmetic(a: int, b: int, c: int) -> None:
    values = {"a": a, "b": b, "c": c}
    assert evaluate("a * b - a // c + b % c", values) == a * b - a // c + b % c
    assert evaluate("a < b and not b == c or -a >= c", values) == int((a < b and b != c) or -a >= c)
    assert evaluate("a <= b < c", values) == int(a <= b < c)


def test_names() -> None:
    assert names_in("M * N + 2") == {"M", "N"}


@pytest.mark.parametrize(
    "text",
    ["M ** 2", "f(M)", "M.x", "M[0]", "1.5", "'a'", "True", "lambda: 1", "(M", "", "M / 2", "1 << M", "[1]", "x"],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expression|allowed"):
        evaluate(text, {"M": 3})


def test_division_by_zero_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="zero"):
        evaluate("M // N", {"M": 1, "N": 0})
