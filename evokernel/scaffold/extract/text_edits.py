"""A text with changes at the places of its syntax tree; what is not changed stays as it was written."""

import ast
from dataclasses import dataclass, field
from typing import Any


@dataclass
class TextEdits:
    """A text with changes at places in it."""

    raw: bytes
    """The text before, in UTF-8: columns of a syntax tree count bytes."""
    made: list[tuple[int, int, bytes]] = field(default_factory=list)
    """Start, end and new text of each change."""

    def __post_init__(self) -> None:
        self._starts = [0]
        for line in self.raw.split(b"\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)

    def line(self, number: int) -> int:
        """Return where a line starts, the first being 1."""
        return min(self._starts[number - 1], len(self.raw))

    def begin(self, node: Any) -> int:
        """Return where a node begins."""
        return self.line(node.lineno) + int(node.col_offset)

    def end(self, node: Any) -> int:
        """Return where a node ends."""
        return self.line(node.end_lineno) + int(node.end_col_offset)

    def source(self, node: ast.expr) -> str:
        """Return the text of an expression as it was."""
        return self.raw[self.begin(node) : self.end(node)].decode()

    def replace(self, start: int, end: int, text: str) -> None:
        """Have other text between two places."""
        self.made.append((start, end, text.encode()))

    def piece(self, start: int, end: int) -> str:
        """Return a part of the text with the changes in it."""
        out, at = b"", start
        for begin, stop, new in sorted(each for each in self.made if start <= each[0] and each[1] <= end):
            out += self.raw[at:begin] + new
            at = stop
        return (out + self.raw[at:end]).decode()
