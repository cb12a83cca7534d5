"""Compiler output as messages to authors: the first errors with their lines, without paths of this machine."""

import re

from evokernel.languages.messages import without_paths

LINE_LIMIT = 40
_ERRORS = 3
_LINES_PER_ERROR = 12
_WIDTH = 200
_ERROR = re.compile(r"[^|]*?: (?:fatal )?error: ")
_SOURCE_LINE = re.compile(r"\s*(?:\d+\s*)?\|")
_NOISE = re.compile(r"^compilation terminated|^\d+ errors? generated|^collect2: |^make: ")
_UNDEFINED = re.compile(r"undefined (?:reference to|symbol:?) [`'‘]?(?P<name>[^\n'’]+)")
_MULTIPLE = re.compile(r"multiple definition of [`'‘](?P<name>[^'’\n]+)")
_NAMES = 10


def digest_errors(stderr: str) -> str:
    """Return the first three errors with source line and caret, at most 40 lines, without absolute paths."""
    linked = _link_errors(stderr)
    if linked is not None:
        return linked
    lines = [_clean(line) for line in stderr.splitlines() if line.strip() and not _NOISE.match(line)]
    starts = [place for place, line in enumerate(lines) if _ERROR.match(line)][:_ERRORS]
    if not starts:
        return "\n".join(lines[:_LINES_PER_ERROR]) or "the compiler failed without a message"
    kept = []
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        following = next((place for place in range(start + 1, end) if _ERROR.match(lines[place])), end)
        block = lines[start:following]
        kept += block[:_LINES_PER_ERROR]
        if len(block) > _LINES_PER_ERROR:
            kept.append(f"  ... {len(block) - _LINES_PER_ERROR} more lines on this error")
    return "\n".join(kept[:LINE_LIMIT])


def _clean(line: str) -> str:
    text = line if _SOURCE_LINE.match(line) else without_paths(line)
    return text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "..."


def _link_errors(stderr: str) -> str | None:
    found = []
    for pattern, reason in ((_UNDEFINED, "used but defined nowhere"), (_MULTIPLE, "defined more than once")):
        names = list(dict.fromkeys(match["name"][:_WIDTH] for match in pattern.finditer(stderr)))
        if names:
            more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
            found.append(f"link error: {reason}: {', '.join(names[:_NAMES])}{more}")
    return "\n".join(found) or None
