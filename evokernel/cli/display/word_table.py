"""Tables of a terminal whose words are never broken: cells wrap between words, columns that do not fit are left out."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text

GAP = 2
"""Blanks between two columns."""
COMFORT = 20
"""Width of a column of prose below which a column that may be left out is left out, in characters."""
Cell = str | Text
_WORD = re.compile(r"\S+(?:(?<=\d) (?:ns|us|ms|s|min|h|%)(?!\w))?")
"""What a line is never broken in: a word, or a number with its unit."""


class WordTable:
    """A table of text. A column without any is left out.

    Args:
        headings: one for each column; all empty for a table without headings.
        right: positions of columns of numbers.
        drop: positions of columns that may be left out where the terminal is narrow, the first to go first.
        styles: style of each column; plain beyond the last.
        told: say in a line below which columns were left out for the width.
    """

    def __init__(
        self,
        headings: Sequence[str],
        *,
        right: Iterable[int] = (),
        drop: Sequence[int] = (),
        styles: Sequence[str] = (),
        told: bool = False,
    ) -> None:
        self._headings = [Text(heading, style="dim") for heading in headings]
        self._right, self._drop = frozenset(right), tuple(drop)
        self._styles = [*styles, *[""] * (len(headings) - len(styles))]
        self._told = told
        self._rows: list[list[Text]] = []

    def add_row(self, *cells: Cell) -> None:
        """Add a row; missing cells are empty."""
        made = [
            each if isinstance(each, Text) else Text(each, style=style)
            for each, style in zip(cells, self._styles, strict=False)
        ]
        self._rows.append([*made, *(Text("") for _ in range(len(self._headings) - len(made)))])

    @property
    def row_count(self) -> int:
        """The number of rows."""
        return len(self._rows)

    def lines(self, width: int) -> Iterator[Text]:
        """Yield the lines of the table for a terminal of that many characters; a word that is longer overruns it."""
        shown, widths = self._fitted(width)
        if len(shown) > 2 and sum(widths) + GAP * (len(widths) - 1) > width:
            yield from self._records(shown, width)
        else:
            if any(self._headings[place].plain for place in shown):
                yield from self._line(self._headings, shown, widths, bottom=True)
                yield Text("─" * (sum(widths) + GAP * (len(widths) - 1)))
            for row in self._rows:
                yield from self._line(row, shown, widths)
        left_out = [
            self._headings[place].plain
            for place, cells in enumerate(self._columns())
            if place not in shown and _widest(cells, str.splitlines)
        ]
        if self._told and left_out:
            told = f"too narrow for: {', '.join(left_out)} (COLUMNS=200 before the command, or --json)"
            yield from wrapped(Text(told, style="dim"), width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines for the width of the options."""
        for line in self.lines(options.max_width):
            line.no_wrap, line.overflow = True, "ignore"
            yield line

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Return the widths between which the table changes its form."""
        naturals = [_widest(cells, str.splitlines) for cells in self._columns()]
        most = min(options.max_width, sum(naturals) + GAP * (len(naturals) - 1))
        least = [
            _widest(cells, _WORD.findall) for place, cells in enumerate(self._columns()) if place not in self._drop
        ]
        return Measurement(min(most, sum(least) + GAP * (len(least) - 1)), most)

    def _columns(self) -> list[list[Text]]:
        return [[heading, *(row[place] for row in self._rows)] for place, heading in enumerate(self._headings)]

    def _fitted(self, width: int) -> tuple[list[int], list[int]]:
        """Return the positions of the columns that are shown, and the width of each."""
        columns = self._columns()
        naturals = [_widest(cells, str.splitlines) for cells in columns]
        least = [_widest(cells, _WORD.findall) for cells in columns]
        least[-1] = min(least[-1], COMFORT)  # nothing stands to the right of what overruns the last column
        shown = [place for place, natural in enumerate(naturals) if natural]
        wanted = [max(low, min(natural, COMFORT)) for low, natural in zip(least, naturals, strict=True)]
        for place in self._drop:
            if sum(wanted[each] + GAP for each in shown) - GAP <= width:
                break
            if place in shown:
                shown.remove(place)
        widths = {place: least[place] for place in shown}
        left = width - sum(widths.values()) - GAP * (len(shown) - 1)
        for number, place in enumerate(sorted(shown, key=lambda each: naturals[each] - least[each])):
            more = max(0, min(naturals[place] - widths[place], left // (len(shown) - number)))
            widths[place] += more
            left -= more
        return shown, [widths[place] for place in shown]

    def _records(self, shown: list[int], width: int) -> Iterator[Text]:
        """Yield each row as names and values below each other: its columns do not fit beside each other."""
        for number, row in enumerate(self._rows):
            record = WordTable(("", ""))
            for place in shown:
                if row[place].plain:
                    record.add_row(Text(" ".join(self._headings[place].plain.split()), style="dim"), row[place])
            yield from [Text("")] if number else []
            yield from record.lines(width)

    def _line(self, row: list[Text], shown: list[int], widths: list[int], *, bottom: bool = False) -> Iterator[Text]:
        cells = [wrapped(row[place], wide) for place, wide in zip(shown, widths, strict=True)]
        height = max(map(len, cells), default=0)
        for number in range(height):
            made = Text()
            for place, cell, wide in zip(shown, cells, widths, strict=True):
                above = height - len(cell) if bottom else 0
                text = cell[number - above] if 0 <= number - above < len(cell) else Text("")
                blank = " " * max(0, wide - cell_len(text.plain))
                made.append_text(Text.assemble(blank, text) if place in self._right else Text.assemble(text, blank))
                made.append(" " * GAP)
            made.rstrip()
            yield made


def wrapped(text: Text, width: int) -> list[Text]:
    """Return the lines of a text, wrapped between words; a word that is longer than the width stays whole."""
    lines: list[Text] = []
    for line in text.split("\n", allow_blank=True):
        breaks, begun = [], 0
        for word in _WORD.finditer(line.plain):
            if word.start() > begun and cell_len(line.plain[begun : word.end()].rstrip()) > width:
                breaks.append(word.start())
                begun = word.start()
        lines += line.divide(breaks)
    for line in lines:
        line.rstrip()
    return lines


def _widest(cells: Iterable[Text], parts: Callable[[str], list[str]]) -> int:
    return max((cell_len(part) for cell in cells for part in parts(cell.plain)), default=0)
