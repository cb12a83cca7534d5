"""Untrusted text made safe to show: no control of a terminal, a page or the direction of a line."""

import unicodedata

_STEERING = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})


def clean(text: str) -> str:
    """Return the text without characters that steer a terminal or reorder a line; tabs become spaces."""
    if text.isascii() and text.isprintable():
        return text
    kept = (" " if c in "\u2028\u2029" else c for c in text.replace("\r\n", "\n").expandtabs(4) if _harmless(c))
    return "".join(kept)


def _harmless(character: str) -> bool:
    return character == "\n" or unicodedata.category(character) not in _STEERING


def one_line(text: str, *, width: int = 0) -> str:
    """Return the cleaned text on one line, cut at a width in characters (0 for as long as it is).

    The cut is between words, unless the last one would take more than half of the width.
    """
    flat = " ".join(clean(text).split())
    if not width or len(flat) <= width:
        return flat
    words = flat[:width].rpartition(" ")[0]
    return (words if len(words) >= width // 2 else flat[: width - 1]).rstrip() + "…"


def reason(operator: str, rationale: str) -> str:
    """Return a rationale without the name of its operator in front, which is shown beside it."""
    return rationale.removeprefix(f"{operator}:").strip() or rationale
