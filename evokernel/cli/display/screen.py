"""A live display without flicker that survives a change of the terminal's size."""

import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.control import Control
from rich.live import Live
from rich.segment import ControlType, Segment

_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
"""Synchronised output: terminals that support it show all in between at once, others ignore it."""
_UP_AND_ERASE = "\x1b[1A\x1b[2K"


class Screen:
    """A display in one place, below earlier output, from `start` to `stop`.

    `stop` removes it. The alternate screen is not used: lines that a narrower terminal pushed into its scrollback stay
    there.
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

    def draw(self, renderable: RenderableType) -> None:
        """Replace what is shown. Raises `OSError` where the terminal has gone."""
        options = self._console.options
        lines = [_trimmed(line) for line in self._console.render_lines(renderable, options, pad=False)]
        with self._synchronised():
            self._live.update(_Lines(lines), refresh=True)
        self._lines = [Segment.get_line_length(line) for line in lines[: options.max_height]]

    def above(self, text: str, *, style: str) -> None:
        """Print a line that stays, above the display. Raises `OSError` where the terminal has gone."""
        with self._synchronised():
            self._console.print(text, style=style)

    @contextmanager
    def _synchronised(self) -> Iterator[None]:
        with self._console:  # one write
            self._send(_BEGIN)
            if self._console.width < self._width:
                self._send("\r\x1b[2K" + _UP_AND_ERASE * wrapped(self._lines, self._console.width))
            self._width = self._console.width
            try:
                yield
            finally:  # a signal may end it anywhere
                self._send(_END)

    def _send(self, sequence: str) -> None:
        control = Control()
        control.segment = Segment(sequence, None, [(ControlType.HOME,)])  # any code will do: only the text is sent
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
    """Return a line without trailing blanks, so that a narrower terminal wraps less."""
    kept = list(line)
    while kept and not kept[-1].text.rstrip():
        kept.pop()
    return [*kept[:-1], *(Segment(last.text.rstrip(), last.style) for last in kept[-1:])]


def wrapped(lines: list[int], width: int) -> int:
    """Return how many more lines a terminal of this width needs for lines of these lengths."""
    return sum(max(1, math.ceil(length / width)) - 1 for length in lines)
