r"""C++ as tokens, without comments and layout.

Follows the phases of translation: a backslash at the end of a line joins it to the next one everywhere except inside a
raw string; a comment is one space; a directive ends with its line. Good for early feedback only: two sources with equal
tokens need not be the same program, since a program can depend on its layout.
"""

import bisect
import re
from collections.abc import Iterator

_SPLICE = re.compile(r"\\[ \t\f\v]*\n")
_RAW = re.compile(r'(?:u8|[uUL])?R"(?P<mark>[^()\\\s"]{0,16})\((?:.|\n)*?\)(?P=mark)"(?:[A-Za-z_]\w*)?')
_TOKEN = re.compile(
    r"""
      (?P<comment>//[^\n]*|/\*(?:.|\n)*?(?:\*/|\Z))
    | (?P<newline>\n)
    | (?P<blank>[ \t\f\v]+)
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
_HEADER = re.compile(r"<[^<>\n]*>")
_BEFORE_HEADER = (["include"], ["include_next"], ["embed"])
_ASKS_FOR_HEADER = frozenset({"__has_include", "__has_include_next", "__has_embed"})
DIRECTIVE = "\n#"
"""The token that begins a directive; the token `"\\n"` ends it."""


def tokens(source: str) -> tuple[str, ...]:
    """Return the tokens of a C++ source.

    Never fails, and takes time in proportion to the text: a literal that is not closed ends with its line (a raw one
    with the source). Any other character that begins no token is one by itself.
    """
    return tuple(_Lexer(source.replace("\r\n", "\n").replace("\r", "\n")).run())


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
                naming = self.directive is not None and len(self.directive) == 2 and self.directive[0] == "define"
                if naming and self.text.startswith("(", place):
                    yield "()"  # `#define F(x)` and `#define F (x)` differ by nothing else
                fresh = False
        if self.directive is not None:
            yield "\n"

    def _at_header(self) -> bool:
        """Say whether the name of a header may stand here; in one `/*` begins no comment."""
        before = self.directive or []
        return before in _BEFORE_HEADER or (before[-1:] == ["("] and not _ASKS_FOR_HEADER.isdisjoint(before[-2:-1]))

    def _next(self, place: int) -> tuple[int, str, str]:
        """Return where the token at a place ends, its kind, and its text."""
        if self._at_header():
            header = _HEADER.match(self.text, place)
            if header is not None:
                return header.end(), "header", header.group()
        match = _TOKEN.match(self.text, place)
        assert match is not None  # the last alternative takes any character but a newline, which has its own
        if match.lastgroup == "raw":
            raw = _RAW.match(self.source, self.origin[place])
            if raw is None:
                return len(self.text), "string", self.source[self.origin[place] :]
            return bisect.bisect_left(self.origin, raw.end()), "string", raw.group()
        return match.end(), str(match.lastgroup), match.group()
