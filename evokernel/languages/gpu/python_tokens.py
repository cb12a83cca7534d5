"""Python as tokens, without comments, layout and docstrings."""

import hashlib
import io
import tokenize
from collections.abc import Iterator

from evokernel.source import SIZE_LIMIT_BYTES

_LAYOUT = {tokenize.NEWLINE: "\n", tokenize.INDENT: "\n>", tokenize.DEDENT: "\n<"}
_NOTHING = frozenset({tokenize.COMMENT, tokenize.NL, tokenize.ENDMARKER})


def program_hash(source: str, *, language: str = "triton") -> str:
    """Return 16 hex digits over the tokens of a Python source; comments, layout and docstrings do not change it.

    Of a source that is too long to be tried all text counts, so that it is not tokenised.
    """
    digest = hashlib.sha256(f"{language}\0".encode())
    for token in _tokens(source) if len(source) <= SIZE_LIMIT_BYTES else (source,):
        encoded = token.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(encoded))
        digest.update(encoded)
    return digest.hexdigest()[:16]


def _tokens(source: str) -> list[str]:
    text = source.replace("\r\n", "\n").replace("\r", "\n")
    try:
        found = [token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type not in _NOTHING]
    except (tokenize.TokenError, SyntaxError):  # not a program; equal only to itself
        return [text]
    return [_LAYOUT.get(token.type, token.string) for token in _without_docstrings(found)]


def _without_docstrings(found: list[tokenize.TokenInfo]) -> Iterator[tokenize.TokenInfo]:
    """Yield the tokens but for statements of strings alone."""
    line: list[tokenize.TokenInfo] = []
    for token in found:
        line.append(token)
        if token.type in _LAYOUT:
            statement = line[:-1]
            if not (token.type == tokenize.NEWLINE and statement and _only_strings(statement)):
                yield from line
            line = []
    yield from line


def _only_strings(statement: list[tokenize.TokenInfo]) -> bool:
    return all(token.type == tokenize.STRING for token in statement)
