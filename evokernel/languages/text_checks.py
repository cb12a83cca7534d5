"""Checks of a source's text in every language: early feedback for authors, not security."""

from evokernel.source import SIZE_LIMIT_BYTES
from evokernel.source.expressions import evaluate
from evokernel.source.regions import read_regions
from evokernel.source.tunables import read_tunables


def check_text(source: str) -> str | None:
    """Return why a text cannot be a source, or why its tunables or regions cannot be used, or None."""
    return _check_characters(source) or _check_tunables(source) or _check_regions(source)


def _check_characters(source: str) -> str | None:
    if "\0" in source:
        return "the source contains a NUL character"
    try:
        size = len(source.encode())
    except UnicodeEncodeError as error:
        line = source.count("\n", 0, error.start) + 1
        return f"line {line}: a character that is not valid Unicode text"
    return f"the source has {size} bytes; the limit is {SIZE_LIMIT_BYTES}" if size > SIZE_LIMIT_BYTES else None


def _check_tunables(source: str) -> str | None:
    try:
        space = read_tunables(source)
        broken = [text for text in space.constraints if not evaluate(text, space.values)]
    except ValueError as error:
        return str(error)
    if broken:
        return f"the tunables' values {space.values} break a constraint (tune-where: {'; '.join(broken)})"
    return None


def _check_regions(source: str) -> str | None:
    try:
        read_regions(source)
    except ValueError as error:
        return str(error)
    return None
