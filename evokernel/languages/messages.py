"""Messages of compilers, fit for authors."""

import re

_PATH = re.compile(r"(?<![\w.])/[^\s:'\"`‘’<>]+/")


def without_paths(text: str) -> str:
    """Return a text with each absolute path cut down to its last part."""
    return _PATH.sub("", text)
