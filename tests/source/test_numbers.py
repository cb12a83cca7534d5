import pytest
from hypothesis import given
from hypothesis import strategies as st

from evokernel.source.numbers import numbers_in_text

HOST = '''
CUDA = r"""__global__ void f() { if (n == 0x3e9u || n % 1234 == -77) x = 1.5f; }"""

def run(x, M, N, out):
    """Rows of 19."""
    if M == 7 * 41 or N in (1009, -2003) or N & ~255:
        x = [each % 12 for each in range(9_000_000)]
'''


def test_numbers_of_code_and_of_strings_are_found_as_python_works_them_out():
    assert set(numbers_in_text(HOST)) >= {12, 19, 77, 256, 287, 1001, 1009, 1234, 2003}
    assert not {0, 1, 9_000_000} & set(numbers_in_text(HOST))


@pytest.mark.parametrize("source", ["def run(:", "x = '\0'", "(" * 5000])
def test_what_is_no_python_has_no_numbers(source: str):
    assert numbers_in_text(source) == ()


def test_a_list_of_many_numbers_costs_a_judge_no_more_than_a_thousand():
    assert numbers_in_text(f"x = {[*range(-9000, 80_000)]}") == (*range(2, 1002),)


@given(number=st.integers(2, 4_000_000), others=st.text(alphabet="0123456789xXabf .\n", max_size=40))
def test_any_size_that_code_compares_with_is_found(number: int, others: str):
    assert number in numbers_in_text(f"def run(x, N, y):\n    return {others!r} if N == {number} else y")
    assert number in numbers_in_text(f'KERNEL = """{others} if (n == {number}) return; """')
