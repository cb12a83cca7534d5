"""A curve of the best speed-up drawn with blocks, for a terminal of any width."""

import math
from bisect import bisect_right
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from evokernel.cli.display.text import DIM, GOOD, times

BLOCKS = " ▁▂▃▄▅▆▇█"
STEPS = len(BLOCKS) - 1

Points = Sequence[tuple[int, float]]
"""Number of results, and the best speed-up from that result on; ascending."""


def drawn(points: Points, *, until: int, columns: int, rows: int) -> list[str]:
    """Return the curve as lines of text, the highest first: from the first result to `until`, speed-ups on a log scale.

    The lowest speed-up is one step high, so that a run of one kernel is a line. Columns before the first are empty.
    """
    if not points or until < 1:
        return [""] * rows
    counts = [count for count, _ in points]
    logs = [math.log(speedup) for _, speedup in points]
    low, span = min(logs), max(logs) - min(logs)
    top = rows * STEPS
    heights = []
    for column in range(columns):
        place = bisect_right(counts, max(1, math.ceil((column + 1) * until / columns))) - 1
        share = (logs[place] - low) / span if span else 0.0
        heights.append(1 + round(share * (top - 1)) if place >= 0 else 0)
    return [
        "".join(BLOCKS[min(STEPS, max(0, height - row * STEPS))] for height in heights) for row in reversed(range(rows))
    ]


def curve(points: Points, *, until: int, width: int, rows: int) -> Table:
    """Return the curve with its lowest speed-up on the left and its last one on the right, `width` columns in all."""
    first, last = times(min(speedup for _, speedup in points)), times(points[-1][1])
    inner = max(1, width - len(first) - len(last) - 2)
    made = Table.grid(padding=(0, 1, 0, 0))
    for _ in range(3):
        made.add_column(no_wrap=True)
    lines = drawn(points, until=until, columns=inner, rows=rows)
    for number, line in enumerate(lines):
        left = Text(first if number == len(lines) - 1 else "", style=DIM)
        made.add_row(left, Text(line, style=GOOD), Text(last if number == 0 else "", style=DIM))
    return made
