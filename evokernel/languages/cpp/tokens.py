r"""C++ as tokens, without comments and layout.

Follows the phases of translation: a backslash at the end of a line joins it to the next one everywhere except inside a
raw string; a comment is one space; a directive ends with its line. Two sources with equal tokens are the same program,
but for `__LINE__` and for the spacing that `#x` in a macro turns into text.
"""

import bisect
import hashlib
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain

from evokernel.source import SIZE_LIMIT_BYTES

_SPLICE = re.compile(r"\\[ \t\f\v]*\n")
_RAW = re.compile(r'(?:u8|[uUL])?R"(?P<mark>[^()\\\s"]{0,16})\((?:.|\n)*?\)(?P=mark)"(?:[A-Za-z_]\w*)?')
_TOKEN = re.compile(
    r"""
      (?P<comment>//[^\n]*|/\*(?:.|\n)*?(?:\*/|\Z))
    | (?P<newline>\n)
    | (?P<blank>[^\S\n]+)
    | (?P<raw>(?:u8|[uUL])?R")
    | (?P<string>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*(?:"(?:[A-Za-z_]\w*)?)?)
    | (?P<char>(?:u8|[uUL])?'(?:\\.|[^'\\\n])*(?:'(?:[A-Za-z_]\w*)?)?)
    | (?P<number>\.?\d(?:'\w|[eEpP][+-]|[\w.])*)
    | (?P<name>[^\W\d][\w$]*)
    | (?P<mark>%:%:|<=>|->\*|\.\.\.|<<=|>>=|<:(?!:(?![:>]))|::|\+\+|--|->|\.\*|\#\#|<<|>>|<=|>=|==|!=|&&|\|\|
              |\+=|-=|\*=|/=|%=|&=|\|=|\^=|:>|<%|%>|%:)
    | (?P<other>.)
    """,
    re.VERBOSE,
)
_HEADER = re.compile(r"[^\S\n]*(?P<name><[^>\n]*>)")
_UNUSUAL = ('R"', "/*", "%:")
"""Marks of text that is not read line by line: raw strings, long comments, and a spelling of `#`."""
_LENGTH_KEPT = 200
_COMMON = r"[A-Za-z_][A-Za-z0-9_]*+(?![\w$\"']) | [;,(){}\[\]]"  # first, since most tokens are of these
_PIECE = re.compile(
    rf"[^\S\n]*+(?: //[^\n]* | \n | ( {_COMMON} | {re.sub(r'[(][?]P<[a-z]+>', '(?:', _TOKEN.pattern)} ))", re.VERBOSE
)
"""A token, or the space between tokens, with an empty group."""
DIRECTIVE = "\n#"
"""The token that begins a directive; the token `"\\n"` ends it."""


def tokens(source: str) -> tuple[str, ...]:
    """Return the tokens of a C++ source.

    Never fails, and takes time in proportion to the text: a literal that is not closed ends with its line (a raw one
    with the source). Any other character that begins no token is one by itself.
    """
    lines = _code_lines(source)
    return tokens_one_by_one(source) if lines is None else tuple(chain.from_iterable(each for each, _ in _read(lines)))


def tokens_one_by_one(source: str) -> tuple[str, ...]:
    """Return the tokens as `tokens` does, one after the other; several times slower."""
    return tuple(_Lexer(_lines(source)).run())


def _lines(source: str) -> str:
    return source.replace("\r\n", "\n").replace("\r", "\n") if "\r" in source else source


def _code_lines(source: str) -> list[str] | None:
    """Return the lines without layout and most comments, or None where a line cannot be read by itself.

    A line with a quote or a `#` before its first `//` is left as it is: in quotes, closed or not, blanks count, and
    there and in the name of a header `//` begins no comment.
    """
    text = _lines(source)
    if any(mark in text for mark in _UNUSUAL) or ("\\" in text and _SPLICE.search(text)):
        return None
    lines: list[str] = []
    for line in text.split("\n"):  # in place: a call for each line would take as long as all of this
        code = line.partition("//")[0]
        verbatim = '"' in code or "'" in code or "#" in code
        lines.append(line if verbatim else code.strip())
    return lines


def _read(lines: list[str]) -> Iterator[tuple[tuple[str, ...], bytes]]:
    """Return the tokens of each line, and their bytes for a hash."""
    return map(_line_kept if max(map(len, lines)) <= _LENGTH_KEPT else _line, lines)


def _line(line: str) -> tuple[tuple[str, ...], bytes]:
    return _line_kept(line) if len(line) <= _LENGTH_KEPT else _line_read(line)


def _line_read(line: str) -> tuple[tuple[str, ...], bytes]:
    directive = line.lstrip().startswith("#")
    found = tuple(_Lexer(line).run() if directive else filter(None, _PIECE.findall(line + "\n")))
    return found, _coded(found)


_line_kept = lru_cache(maxsize=8192)(_line_read)
"""A child has most lines of its parent."""


def program_hash(source: str) -> str:
    """Return 16 hex digits over the tokens of a C++ source; comments and layout do not change it.

    Of a source that is too long to be tried all text counts, so that it is not tokenised.
    """
    if len(source) > SIZE_LIMIT_BYTES:
        text = _coded((source,))
    elif (lines := _code_lines(source)) is None:
        text = _coded(tokens_one_by_one(source))
    else:
        text = b"".join([coded for _, coded in _read(lines)])
    return hashlib.sha256(b"cpp\0" + text).hexdigest()[:16]


def _coded(found: tuple[str, ...]) -> bytes:
    encoded = [token.encode("utf-8", "surrogatepass") for token in found]
    return b"".join([b"%d:%s" % (len(token), token) for token in encoded])


class _Lexer:
    """One pass over the joined lines; raw strings are taken from the text as it was written."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.origin: list[int] = []
        """For each character of the joined text, its place in the source."""
        parts: list[str] = []
        start = 0
        for splice in (*_SPLICE.finditer(source), None):
            end = len(source) if splice is None else splice.start()
            parts.append(source[start:end])
            self.origin.extend(range(start, end))
            start = len(source) if splice is None else splice.end()
        self.text = "".join(parts)
        self.directive: list[str] | None = None
        """The tokens of the directive being read so far, without its `#`."""

    def run(self) -> Iterator[str]:
        place, fresh = 0, True  # fresh: nothing but white space since the line began
        while place < len(self.text):
            place, kind, token = self._next(place)
            if kind == "newline":
                if self.directive is not None:
                    yield "\n"
                self.directive, fresh = None, True
            elif kind not in ("comment", "blank"):
                if fresh and token in ("#", "%:"):
                    self.directive, token = [], DIRECTIVE
                elif self.directive is not None:
                    self.directive.append(token)
                yield token
                if self._at_parameters(place):
                    yield "()"  # `#define F(x)` and `#define F (x)` differ by nothing else
                fresh = False
        if self.directive is not None:
            yield "\n"

    def _at_parameters(self, place: int) -> bool:
        """Say whether the parameters of a macro begin here, right behind its name."""
        defining = self.directive is not None and self.directive[:1] == ["define"] and len(self.directive) == 2
        return defining and self.text.startswith("(", place)

    def _next(self, place: int) -> tuple[int, str, str]:
        """Return where the token at a place ends, its kind, and its text."""
        if self.directive is not None and self.directive[-1:] in (["include"], ["include_next"], ["embed"]):
            header = _HEADER.match(self.text, place)
            if header is not None:
                return header.end(), "header", header["name"]
        match = _TOKEN.match(self.text, place)
        assert match is not None  # the last alternative takes any character but a newline, which has its own
        if match.lastgroup == "raw":
            raw = _RAW.match(self.source, self.origin[place])
            if raw is None:
                return len(self.text), "string", self.source[self.origin[place] :]
            return bisect.bisect_left(self.origin, raw.end()), "string", raw.group()
        return match.end(), str(match.lastgroup), match.group()
