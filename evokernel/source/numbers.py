"""Whole numbers in a kernel, with which its code may tell sizes apart."""

import re
import warnings
from collections.abc import Iterable, Iterator
from types import CodeType

MOST_NUMBER, _MOST_NUMBERS = 1 << 22, 1000
"""The largest number that may be a size, and how many of a kernel count: every pair of them may give one."""
_LITERAL = re.compile(r"\b(?:0[xX][0-9a-fA-F]{1,6}|[0-9]{1,7})(?![0-9a-fA-FxX])")


def likely_sizes(numbers: Iterable[int]) -> tuple[int, ...]:
    """Return those numbers that may be sizes, without their signs: from 2 to 4 million, the least thousand, sorted."""
    return tuple(sorted({number for number in map(abs, numbers) if 2 <= number <= MOST_NUMBER}))[:_MOST_NUMBERS]


def numbers_in_text(source: str) -> tuple[int, ...]:
    """Return the likely sizes in a Python file and in its strings.

    Python has worked out by then what the file writes as a sum or a product; its strings may be CUDA C++. Nothing of
    the file runs. A file that cannot be compiled has no numbers.
    """
    try:
        with warnings.catch_warnings(action="ignore"):
            code = compile(source, "<candidate>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return ()
    return likely_sizes(_constants(code))


def _constants(code: CodeType) -> Iterator[int]:
    left: list[object] = [code]
    while left:
        match left.pop():
            case CodeType(co_consts=constants):
                left += constants
            case tuple() | frozenset() as parts:
                left += parts
            case bool():
                pass
            case int(number):
                yield number
            case str(text):
                yield from (int(literal, 16 if "x" in literal.lower() else 10) for literal in _LITERAL.findall(text))
