"""A live display that neither flickers nor leaves remains behind when its terminal changes its size."""

import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.control import Control
from rich.live import Live
from rich.segment import ControlType, Segment

_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
"""Synchronised output: a terminal that knows it shows all in between at once, others pass it over."""
_UP_AND_ERASE = "\x1b[1A\x1b[2K"


class Screen:
    """Draws one thing again and again in the same place, below what was printed before, from `start` to `stop`.

    Then the display is removed. The alternate screen is left alone, so what a terminal that was made narrower has
    pushed up into its scrollback stays there.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True, vertical_overflow="crop")
        self._lines: list[int] = []
        self._width = 0

    def start(self) -> None:
        """Hide the cursor and begin."""
        self._live.start()

    def stop(self) -> None:
        """Remove the display and show the cursor again."""
        with suppress(OSError):
            self._live.stop()

    def draw(self, drawn: RenderableType) -> None:
        """Put something in the place of what is shown. Raises `OSError` where the terminal has gone."""
        options = self._console.options
        lines = [_trimmed(line) for line in self._console.render_lines(drawn, options, pad=False)]
        with self._at_once():
            self._live.update(_Lines(lines), refresh=True)
        self._lines = [Segment.get_line_length(line) for line in lines[: options.max_height]]

    def above(self, text: str, *, style: str) -> None:
        """Print a line that stays, above the display. Raises `OSError` where the terminal has gone."""
        with self._at_once():
            self._console.print(text, style=style)

    @contextmanager
    def _at_once(self) -> Iterator[None]:
        with self._console:  # one write
            self._say(_BEGIN)
            if self._console.width < self._width:
                self._say("\r\x1b[2K" + _UP_AND_ERASE * wrapped(self._lines, self._console.width))
            self._width = self._console.width
            try:
                yield
            finally:  # a signal may end it anywhere
                self._say(_END)

    def _say(self, sequence: str) -> None:
        control = Control()
        control.segment = Segment(sequence, None, [(ControlType.HOME,)])  # any code will do: the text is what is sent
        self._console.control(control)


class _Lines:
    """Lines as they were rendered."""

    def __init__(self, lines: list[list[Segment]]) -> None:
        self._lines = lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for number, line in enumerate(self._lines):
            if number:
                yield Segment.line()
            yield from line


def _trimmed(line: list[Segment]) -> list[Segment]:
    """Return a line without the blanks at its end: a narrower terminal has less to wrap."""
    kept = list(line)
    while kept and not kept[-1].text.rstrip():
        kept.pop()
    return [*kept[:-1], *(Segment(last.text.rstrip(), last.style) for last in kept[-1:])]


def wrapped(lines: list[int], width: int) -> int:
    """Return how many lines more than before a terminal needs for lines of such lengths, made this narrow."""
    return sum(max(1, math.ceil(length / width)) - 1 for length in lines)
