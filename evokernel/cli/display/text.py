"""Text for a terminal: consoles without markup, numbers with their units."""

import math

from rich.console import Console
from rich.text import Text

from evokernel.records.timing import Speedup
from evokernel.report.safe_text import clean as clean
from evokernel.report.safe_text import one_line as one_line
from evokernel.report.safe_text import reason as reason

GOOD, BAD, DIM, STRONG, WARN = "green", "red", "dim", "bold", "yellow"


class PlainConsole(Console):
    """A console without markup; a broken pipe is an error to the caller."""

    def on_broken_pipe(self) -> None:
        """Raise the error again: the console's default would end the process in the middle of a search."""
        raise


TELLING = 1000.0
"""An interval whose ends are farther apart than this many times tells nothing."""


def stdout() -> Console:
    """Return a console for results."""
    return PlainConsole(markup=False, emoji=False, highlight=False)


def stderr() -> Console:
    """Return a console for messages."""
    return PlainConsole(markup=False, emoji=False, highlight=False, stderr=True)


def say(stage: str) -> None:
    """Say on stderr what a command is at, where it takes seconds."""
    stderr().print(Text(stage, style=DIM))


def times(value: float) -> str:
    """Return a speed-up as text, for example `12.4x`."""
    if not math.isfinite(value):
        return "-"
    digits = 0 if value >= 1000 else 1 if value >= 100 else 2 if value >= 0.1 else 4
    return f"{value:.{digits}f}x"


def interval(speedup: Speedup) -> str:
    """Return the 95 % interval of a speed-up, for example `12.1-12.7`; `too wide` where it tells nothing."""
    if speedup.high > TELLING * speedup.low:
        return "too wide"
    low, high = times(speedup.low).removesuffix("x"), times(speedup.high).removesuffix("x")
    return f"{low}–{high}"


def styled_speedup(speedup: Speedup) -> Text:
    """Return a speed-up coloured by what its interval says: faster, slower, or neither."""
    style = GOOD if speedup.low > 1 else BAD if speedup.high < 1 else ""
    return Text(times(speedup.value), style=style)


def duration(seconds: float) -> str:
    """Return a time span in the two units that matter, for example `1 h 05 min`."""
    if not math.isfinite(seconds) or seconds < 0:
        return "-"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} d {whole % 86400 // 3600:02d} h"


def rate(per_second: float) -> str:
    """Return how often something happens, for example `2.3/s` or `14/min`."""
    return f"{per_second:.2g}/s" if per_second >= 0.5 else f"{per_second * 60:.2g}/min"
