"""Whole numbers in a Python kernel's text, with which its code may tell sizes apart."""

import re
import warnings
from collections.abc import Iterator
from types import CodeType

_MOST_NUMBER = 4_000_000
_LITERAL = re.compile(r"\b(?:0[xX][0-9a-fA-F]{1,6}|[0-9]{1,7})(?![0-9a-fA-FxX])")


def numbers_in(source: str) -> tuple[int, ...]:
    """Return the numbers from 2 to 4 million in a Python file and in its strings, without their signs, sorted.

    Python has worked out by then what the file writes as a sum or a product; its strings may be CUDA C++. Nothing of
    the file runs. A file that cannot be compiled has no numbers.
    """
    try:
        with warnings.catch_warnings(action="ignore"):
            code = compile(source, "<candidate>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return ()
    return tuple(sorted({number for number in map(abs, _constants(code)) if 2 <= number <= _MOST_NUMBER}))


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
