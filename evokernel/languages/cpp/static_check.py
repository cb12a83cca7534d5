"""Checks of a C++ source without a compiler: early feedback for authors, not security.

A hostile source passes any check of its text; the sandbox keeps it harmless.
"""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from evokernel.languages.cpp.tokens import DIRECTIVE, tokens
from evokernel.languages.text_checks import check_text

_RUNS = 8
"""Functions of one name that are looked at: each look may go to the end of the text."""
HEADERS = frozenset(Path(__file__).with_name("headers.txt").read_text(encoding="utf-8").split())
_ASSEMBLER = frozenset({"asm", "__asm", "__asm__"})


def static_check(source: str) -> str | None:
    """Return why a C++ source cannot be tried, or None."""
    return check_text(source) or _check_tokens(tokens(source))


def entry_parameters(source: str) -> list[tuple[str, ...]]:
    """Return the parameters of the last functions `run` as they are written; of Python with a `run` nothing."""
    found = tokens(source)
    heads = [found[i - 1 : i + 2] for i in range(1, len(found))]
    if ("def", "run", "(") in heads:
        return []
    places = [place + 3 for place, head in enumerate(heads) if head == ("void", "run", "(")]
    return [listed for place in places[-_RUNS:] if (listed := _parameters(found, place)) is not None]


def _parameters(found: tuple[str, ...], place: int) -> tuple[str, ...] | None:
    """Return what lies between here and the parenthesis that closes; None where none does."""
    parameters, depth = [""], 0
    for token in islice(found, place, None):
        if token == ")" and not depth:
            return tuple(parameter.strip() for parameter in parameters if parameter)
        depth += (token in "([{<") - (token in ")]}>")
        if token == "," and not depth:
            parameters.append("")
        else:
            parameters[-1] += token if token in ("*", "&") else f" {token}"
    return None


def _check_tokens(found: tuple[str, ...]) -> str | None:
    for directive in _directives(found):
        problem = _check_directive(directive)
        if problem is not None:
            return problem
    if _ASSEMBLER & set(found):
        literals = (token for token in found if token.endswith('"'))
        if any(word in literal for literal in literals for word in (".incbin", ".include")):
            return "inline assembly must not use .incbin or .include"
    if not _has_entry(found):
        return 'the entry point is missing: the source must define `extern "C" void run(...)`'
    return None


def _directives(found: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the tokens of each directive, without its `#` and its end."""
    start: int | None = None
    for place, token in enumerate(found):
        if token == DIRECTIVE:
            start = place + 1
        elif token == "\n" and start is not None:
            yield found[start:place]
            start = None


def _check_directive(directive: tuple[str, ...]) -> str | None:
    match directive:
        case ("include", name) if name.startswith("<") and name[1:-1].strip() in HEADERS:
            return None
        case ("include", *rest):
            return f"#include {' '.join(rest)}: only standard headers in < > can be included, such as <immintrin.h>"
        case (("embed" | "include_next" | "import") as word, *_):
            return f"#{word} cannot be used; everything a kernel needs must be in its source"
    return None


def _has_entry(found: tuple[str, ...]) -> bool:
    """Say whether `run (` comes after an `extern "C"`, in the same declaration or in its block."""
    linkage = next((i for i in range(len(found) - 1) if found[i] == "extern" and found[i + 1] == '"C"'), None)
    if linkage is None:
        return False
    return any(found[i] == "run" and found[i + 1] == "(" for i in range(linkage, len(found) - 1))
